"""Dead letters that Spark chose get a new life, once, and every one of them is accounted for."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import redrive as command_module
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.redrive import job
from django_pgqueue.spark.redrive.job import redrive
from django_pgqueue.spark.redrive.letters import dead_letters
from django_pgqueue.spark.schema import arrow_schema
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_dead_letters
from tests.support.sessions import Session as Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANARY = "canary-4b1d"
LIVES = "SELECT redriven_from FROM pgqueue_message WHERE redriven_from IS NOT NULL ORDER BY 1"


def counts(tally: Any) -> dict[str, int]:
    found = {name: getattr(tally, name) for name in ("selected", "redriven", "already", "gone", "refused")}
    return {name: count for name, count in found.items() if count}


def ids(database: Database, condition: str = "true") -> list[int]:
    return [key for (key,) in database.execute(f"SELECT id FROM pgqueue_dead_letter WHERE {condition} ORDER BY id")]


def lives(database: Database) -> list[int]:
    """The dead letters that live again; one that lives twice is there twice."""
    return [key for (key,) in database.execute(LIVES)]


def command(*arguments: str) -> int:
    parser = ArgumentParser(exit_on_error=False)
    command_module.add_arguments(parser)
    return command_module.run(parser.parse_args(arguments))


def frame(spark: SparkSession, keys: list[int]) -> Any:
    return spark.createDataFrame([(key,) for key in keys], "id bigint")


def lake_of_letters(path: Path, keys: list[int]) -> Lake:
    """A lake whose dead letters have these ids and failed."""
    made = Lake.open(path, create=True)
    with made.writing() as writing:
        file = writing.stage("dead_letter", f"day={DAY}")
        letters = [{"id": key, "reason": "failed"} for key in keys]
        pq.write_table(pa.Table.from_pylist(letters, arrow_schema("dead_letter")), file)
        writing.commit("dead_letter", "export", [writing.staged(file)])
    return made


def test_a_condition_chooses_and_nothing_lives_twice(spark: SparkSession, source: Source, database: Database):
    fill_dead_letters(database, 300, reason="CASE i % 3 WHEN 0 THEN 'failed' ELSE 'refused' END")
    assert counts(redrive("reason = 'failed' AND attempts = 5", source)) == {"selected": 100, "redriven": 100}
    assert lives(database) == ids(database, "reason = 'failed'")
    assert counts(redrive("reason = 'failed'", source)) == {"selected": 100, "already": 100}
    assert len(lives(database)) == 100


def test_a_frame_chooses_and_every_letter_is_accounted_for(spark: SparkSession, source: Source, database: Database):
    fill_dead_letters(database, 40)
    keys = ids(database)
    database.execute("SELECT pgqueue_redrive(%s)", [keys[:10]])
    database.execute("DELETE FROM pgqueue_dead_letter WHERE id = ANY (%s)", [keys[10:13]])
    chosen = frame(spark, [*keys, *keys[:5], -7])
    expected = {"selected": 41, "redriven": 27, "already": 10, "gone": 4}
    assert counts(redrive(chosen, source, dry_run=True)) == expected
    assert len(lives(database)) == 10
    assert counts(redrive(chosen, source)) == expected
    assert lives(database) == keys[:10] + keys[13:]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("named_struct('order', id, 'note', CAST(NULL AS string))", '{"note": null, "order": 0}'),
        ("""concat('{"order": ', id, '}')""", '{"order": 0}'),
        ("id", "0"),
        ("CAST(NULL AS string)", '{"order": 0, "old": true}'),
    ],
)
def test_the_payload_is_changed_by_an_expression(
    spark: SparkSession, source: Source, database: Database, expression: str, expected: str
):
    fill_dead_letters(database, 3, payload="""jsonb_build_object('order', 0, 'old', true)""")
    letters = dead_letters(spark, source, "get_json_object(payload, '$.old') = 'true'", expression)
    assert counts(redrive(letters, source)) == {"selected": 3, "redriven": 3}
    found = database.execute("SELECT redriven_from, payload FROM pgqueue_message ORDER BY redriven_from").fetchall()
    wanted = [[expected.replace("0", str(key)) if "old" not in expected else expected] for key in ids(database)]
    assert [[database.execute("SELECT %s::jsonb", [text]).fetchone()[0]] for [text] in wanted] == [
        [payload] for _, payload in found
    ]


def test_a_channel_that_takes_none_does_not_stop_the_others(spark: SparkSession, source: Source, database: Database):
    for name in ("open", "full", "released"):
        database.execute("SELECT pgqueue_channel_set('default', %s)", [name])
    database.execute("SELECT pgqueue_channel_set('default', 'full', p_limits => '{\"max_size\": 1}')")
    database.execute("SELECT pgqueue_enqueue('h', p_channel => unnest(ARRAY['full', 'released']))")
    database.execute("SELECT pgqueue_channel_release('default', 'released')")
    fill_dead_letters(database, 50, channel="(ARRAY['open', 'full', 'released', 'missing', 'open'])[i % 5 + 1]")
    letters = frame(spark, ids(database))
    assert counts(redrive(letters, source, dry_run=True)) == {"selected": 50, "redriven": 20, "refused": 30}
    assert lives(database) == []
    tally = redrive(letters, source)
    assert counts(tally) == {"selected": 50, "redriven": 20, "refused": 30}
    assert lives(database) == ids(database, "channel = 'open'")
    assert sum(tally.reasons.values()) == 30
    assert [
        word for word in ("holds 1 of 1", "has been released", "does not exist") if word in " ".join(tally.reasons)
    ] == [
        "holds 1 of 1",
        "has been released",
        "does not exist",
    ]


def test_a_payload_that_is_no_json_names_its_letter(spark: SparkSession, source: Source, database: Database):
    fill_dead_letters(database, 5)
    keys = ids(database)
    texts = ['{"ok": 1}', "{broken", '"\\u0000"', "nul \0", None]
    letters = spark.createDataFrame(list(zip(keys, texts, strict=True)), "id bigint, payload string")
    tally = redrive(letters, source)
    assert counts(tally) == {"selected": 5, "redriven": 2, "refused": 3}
    assert lives(database) == [keys[0], keys[4]]
    assert {key for key in keys if any(f"dead letter {key} " in reason for reason in tally.reasons)} == set(keys[1:4])


def test_another_channel_can_be_named(spark: SparkSession, source: Source, database: Database):
    database.execute("SELECT pgqueue_channel_set('default', 'second/chance=')")
    fill_dead_letters(database, 3)
    assert counts(redrive("true", source, channel="second/chance=")) == {"selected": 3, "redriven": 3}
    assert counts(redrive("true", source, channel="typo")) == {"selected": 3, "already": 3}
    [(count,)] = database.execute(
        "SELECT count(*) FROM pgqueue_message m JOIN pgqueue_channel c ON c.id = m.channel_id WHERE c.name = %s",
        ["second/chance="],
    )
    assert count == 3


def test_a_run_counts_what_it_has_redriven_and_not_what_another_one_has(
    spark: SparkSession, source: Source, database: Database
):
    """The other run comes between the choice and the redrive, and takes every second letter."""
    fill_dead_letters(database, 200)
    task = job.RedriveTask(source, None, None, False, database.execute("SELECT clock_timestamp()").fetchone()[0])
    chosen = frame(spark, ids(database)).repartition(2).localCheckpoint().rdd
    assert counts(redrive("id % 2 = 0", source)) == {"selected": 100, "redriven": 100}
    assert counts(job.run_partitions(chosen, task)) == {"selected": 200, "redriven": 100, "already": 100}
    assert lives(database) == ids(database)


def test_a_task_that_is_tried_again_moves_nothing_twice(
    spark: SparkSession, source: Source, database: Database, tmp_path: Path
):
    """Its worker is killed by SIGKILL when its letters are back, before it could say so."""
    fill_dead_letters(database, 200)
    task = job.RedriveTask(source, None, None, False, database.execute("SELECT clock_timestamp()").fetchone()[0])
    mark = tmp_path / "killed"

    def killed_once(rows: Any) -> Any:
        tally = task(rows)
        if tally.selected and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return tally

    total = job.run_partitions(frame(spark, ids(database)).repartition(2).localCheckpoint().rdd, killed_once)
    assert mark.exists()
    assert counts(total) == {"selected": 200, "redriven": 200}
    assert lives(database) == ids(database)


def test_a_letter_that_another_session_holds_is_waited_for_and_then_reported(
    spark: SparkSession, source: Source, database: Database, connect: Any
):
    fill_dead_letters(database, 3)
    [first, *rest] = ids(database)
    other = connect()
    other.execute("SELECT FROM pgqueue_dead_letter WHERE id = %s FOR UPDATE", [first])
    tally = redrive(frame(spark, [first, *rest]), source)
    assert counts(tally) == {"selected": 3, "redriven": 2, "refused": 1}
    assert list(tally.reasons) == ["another session holds it"]
    other.rollback()
    assert counts(redrive(frame(spark, [first]), source)) == {"selected": 1, "redriven": 1}


def test_a_rate_is_kept(spark: SparkSession, source: Source, database: Database):
    fill_dead_letters(database, 30)
    assert counts(redrive("true", source, rate=20)) == {"selected": 30, "redriven": 30}
    moments = [at for (at,) in database.execute("SELECT redriven_at FROM pgqueue_dead_letter ORDER BY 1")]
    # The second batch begins a second after the end of the first one, however slow that was.
    assert (moments[20] - moments[19]).total_seconds() >= 1


def test_the_command_counts_and_redrives(
    spark: SparkSession, dsn: str, database: Database, capsys: pytest.CaptureFixture[str]
):
    fill_dead_letters(database, 4, channel="CASE i WHEN 0 THEN 'gone' ELSE 'default' END")
    arguments = ["--source", dsn, "--where", "reason = 'failed'", "--set-payload", "map('n', 1)"]
    assert command(*arguments, "--dry-run") == 1
    assert capsys.readouterr().out == (
        "4 dead letters chosen, 3 would be redriven, 0 were redriven before, 0 are gone, 1 would be refused.\n"
    )
    assert command(*arguments) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("4 dead letters chosen, 3 redriven, ")
    assert printed.err == '1 refused: channel "gone" does not exist in queue "default"\n'


def test_the_letters_of_a_lake_are_those_of_its_database(
    spark: SparkSession, dsn: str, source: Source, database: Database, lake: Path
):
    fill_dead_letters(database, 3)
    keys = ids(database)
    made = lake_of_letters(lake, [*keys, 9_999_999])
    arguments = ["--source", dsn, "--lake", str(lake), "--where", "reason = 'failed'"]
    system, name = source.identity()
    made.describe(system_identifier=system, database="1 another")
    with pytest.raises(PipelineError, match="holds another database"):
        command(*arguments)
    made.describe(system_identifier=system, database=name, without=("payload",))
    assert command(*arguments) == 0
    assert lives(database) == keys
    with pytest.raises(PipelineError, match="does not have the column payload"):
        command(*arguments, "--set-payload", "upper(PAYLOAD)")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--where", "nonsense = 1"], "nonsense"),
        (["--where", "reason ="], "Spark does not accept this SQL"),
        (["--where", "reason"], "Spark does not accept this SQL"),
        (["--where", "true", "--set-payload", "current_date()"], "type date"),
    ],
)
def test_sql_that_spark_does_not_take_is_reported_in_a_line(
    spark: SparkSession, dsn: str, arguments: list[str], printed: str
):
    with pytest.raises(PipelineError, match=printed) as raised:
        command("--source", dsn, *arguments)
    assert "\n" not in str(raised.value)


def test_no_password_is_shown(spark: SparkSession, dsn: str, database: Database, capfd: pytest.CaptureFixture[str]):
    fill_dead_letters(database, 1)
    wrong = f"{dsn}&password={CANARY}&port=1"
    with pytest.raises(PipelineError, match="cannot be reached") as raised:
        command("--source", wrong, "--where", "true")
    assert CANARY not in str(raised.value)
    assert command("--source", f"{dsn}&password={CANARY}", "--where", "id > 0 AND reason = 'failed'") == 0
    printed = capfd.readouterr()
    assert CANARY not in printed.out + printed.err
