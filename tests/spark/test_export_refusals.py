"""Lakes, databases and roles that do not fit, and what an export says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.register import report_export
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.files import HORIZON
from django_pgqueue.spark.source import Source
from tests.spark.rows import fill_archive, fill_dead_letters
from tests.spark.test_export import ARCHIVE, LETTERS, Database, expected, ids


def test_a_lake_of_another_database_is_refused_until_it_is_adopted(
    source: Source, database: Database, lake: Path
) -> None:
    fill_archive(database, 1)
    made = Lake.open(lake, create=True)
    made.describe(system_identifier="1", database="5 shop")

    with pytest.raises(PipelineError, match=r"holds another database .*--adopt"):
        export(source, lake)
    export(source, lake, ExportOptions(adopt=True))

    assert Lake.open(lake).description.system_identifier == source.identity()[0]


def test_a_database_that_is_older_than_the_lake_is_refused(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 1)
    with Lake.open(lake, create=True).writing() as writing:
        writing.commit("archive", "export", transaction=(HORIZON, 2**40))

    with pytest.raises(PipelineError, match=r"only at \d+: it was restored from a backup"):
        export(source, lake)


def test_an_old_copy_of_the_lake_is_refused_until_it_is_adopted(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    export(source, lake)
    name, copy = Lake.open(lake).description.name, lake.with_name("copy")
    copy.mkdir()
    for path in sorted(lake.rglob("*")):
        to = copy / path.relative_to(lake)
        to.mkdir() if path.is_dir() else to.write_bytes(path.read_bytes())
    fill_archive(database, 5)
    export(source, lake)

    with pytest.raises(PipelineError, match=r"an old copy.*--adopt"):
        export(source, copy)
    assert export(source, copy, ExportOptions(adopt=True)).rows["archive"] == 5
    assert ids(copy) == expected(database)
    assert database.execute("SELECT name FROM pgqueue_lake").fetchall() == [(name,)]


@pytest.mark.parametrize("lost", ["all versions", "the newest version", "the folder of the log"])
def test_a_lake_that_has_lost_commits_is_refused_even_with_adopt_and_is_not_doubled(
    source: Source, database: Database, lake: Path, lost: str
) -> None:
    for _ in range(3):
        fill_archive(database, 10)
        export(source, lake)
    lose(lake, lost)
    files = {path: path.read_bytes() for path in lake.rglob("*.parquet")}

    for adopt in (False, True):
        with pytest.raises(PipelineError, match=r"lost.*from a backup"):
            export(source, lake, ExportOptions(adopt=adopt))

    assert {path: path.read_bytes() for path in lake.rglob("*.parquet")} == files
    assert database.execute("SELECT count(*) FROM pgqueue_lake").fetchone() == (1,)


def lose(lake: Path, lost: str) -> None:
    """Lose versions of the archive as a restore of a part of the lake does."""
    versions = sorted(lake.glob("archive/_delta_log/*.json"))
    for path in versions[-1:] if lost == "the newest version" else versions:
        path.unlink()
    if lost == "the folder of the log":
        versions[0].parent.rmdir()


def test_the_database_learns_what_the_lake_holds(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    fill_dead_letters(database, 2)
    summary = export(source, lake)
    made = Lake.open(lake)

    [row] = database.execute("SELECT name, path, exported_xid, rows FROM pgqueue_lake").fetchall()

    assert summary.warning == ""
    assert row == (made.description.name, str(lake), made.exported(), made.rows)
    assert row[3] == {"archive": {"2026-03-14": 10}, "dead_letter": {"2026-03-14": 2}}


def test_a_report_that_the_database_does_not_take_is_a_warning(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    export(source, lake)
    assert report_export(source, Lake.open(lake), new=False) == ""
    # As if another copy of this lake had been exported to meanwhile.
    database.execute("UPDATE pgqueue_lake SET exported_xid = exported_xid + 1000")
    assert "another copy of it is written, too" in report_export(source, Lake.open(lake), new=False)


def test_a_lake_that_was_made_anew_takes_the_place_of_the_one_before(
    source: Source, database: Database, lake: Path
) -> None:
    export(source, lake)
    lake.rename(lake.with_name("gone"))

    assert export(source, lake).warning == ""
    assert database.execute("SELECT name FROM pgqueue_lake").fetchall() == [(Lake.open(lake).description.name,)]


def test_a_role_that_may_only_read_exports_and_warns(dsn: str, source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    reader = as_role(database, dsn, "pgqueue_test_reader", "GRANT pg_read_all_data TO {}")

    summary = export(reader, lake)

    assert ids(lake) == expected(database)
    assert "may not run pgqueue_lake_exported" in summary.warning


def test_a_role_that_may_not_read_the_partitions_reads_what_to_grant(dsn: str, database: Database, lake: Path) -> None:
    fill_archive(database, 10)
    grants = f"GRANT SELECT ON {ARCHIVE}, {LETTERS}, pgqueue_channel TO {{}}"

    with pytest.raises(PipelineError, match=r"may not read pgqueue_archived_message_.*pg_read_all_data"):
        export(as_role(database, dsn, "pgqueue_test_blind", grants), lake)


def as_role(database: Database, dsn: str, role: str, grants: str) -> Source:
    if not database.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        database.execute(f"CREATE ROLE {role}")
    database.execute(grants.format(role))
    return Source.parse(f"{dsn}&options=-c%20role%3D{role}")


def test_a_database_without_our_tables_is_one_clear_line(dsn: str, lake: Path) -> None:
    with pytest.raises(PipelineError, match=r"no table pgqueue_archived_message .* migrate it"):
        export(Source.parse(f"{dsn}&options=-c%20search_path%3Dpg_catalog"), lake)


def test_an_older_database_lacks_columns(source: Source) -> None:
    existing = {"id": "bigint", "xid": "xid8"}

    assert 'NULL::text AS "payload"' in schema.select(schema.TABLES["archive"], existing, "archive")
    assert "infinity" not in schema.select(schema.TABLES["archive"], existing, "archive")
