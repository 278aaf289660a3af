"""Publishing: the copy in an object store has what the lake has, and no other lake's copy is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.writing import lake_lock, vacuum
from django_pgqueue.spark.publish import LOCK
from django_pgqueue.spark.source import Source
from tests.spark.object_store import BUCKET, KEY, SECRET, ObjectStore
from tests.spark.published import check_copy, ids_of, merge_all, publish
from tests.spark.rows import fill_archive, fill_dead_letters
from tests.spark.test_compact import NEXT_DAY, add
from tests.spark.test_export import ids
from tests.support.markdown import DOCS, blocks
from tests.support.sessions import Session as Database

DENIED = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
WRONG_KEY = b"<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>"


def test_the_copy_has_what_the_lake_has_and_nothing_is_uploaded_again(
    made: Lake, store: ObjectStore, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(made, store, prefix) == 0
    assert "has the lake: uploaded 4 files" in capsys.readouterr().out
    check_copy(made, store, prefix, tmp_path / "copy")

    writes: list[str] = []
    store.before = lambda environ: writes.append(environ["PATH_INFO"])
    assert publish(made, store, prefix) == 0
    assert "uploaded 0 files, 0 bytes; 4 were there; deleted 0." in capsys.readouterr().out
    assert writes == []

    add(made, range(40, 50), NEXT_DAY)
    assert publish(made, store, prefix) == 0
    assert "uploaded 1 files" in capsys.readouterr().out
    assert len([path for path in writes if "/day=" in path]) == 1


def test_exports_rollups_and_compactions_between_two_publications(
    source: Source, database: Database, lake: Path, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    for n in range(3):
        fill_archive(database, 50)
        fill_dead_letters(database, 5)
        export(source, lake)
        assert main(["rollup", "--lake", str(lake)]) == 0
        made = Lake.open(lake)
        if n == 1:
            merge_all(made)
        assert publish(made, store, prefix) == 0
        check_copy(made, store, prefix, tmp_path / f"copy-{n}")
    files, root = store.files(), f"{BUCKET}/{prefix}"
    assert ids_of(files, root) == sorted(ids(lake))


def test_files_that_the_lake_has_deleted_are_deleted_in_the_copy(
    made: Lake, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    publish(made, store, prefix)
    merge_all(made)
    vacuum(made, "archive", 0)

    assert publish(made, store, prefix) == 0

    data = [path for path in store.content(prefix) if path.startswith("archive/day=")]
    assert len(data) == 2
    check_copy(made, store, prefix, tmp_path / "copy")


def test_a_copy_of_another_size_is_uploaded_again(made: Lake, store: ObjectStore, prefix: str, tmp_path: Path) -> None:
    publish(made, store, prefix)
    there = made.paths("archive")[1].relative_to(made.path).as_posix()
    with store.files().open_output_stream(f"{BUCKET}/{prefix}/{there}") as stream:
        stream.write(b"PAR1")
    assert publish(made, store, prefix) == 0
    check_copy(made, store, prefix, tmp_path / "copy")


def test_a_file_that_arrives_damaged_is_noticed(
    made: Lake, store: ObjectStore, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = made.paths("archive")[2].name

    def damage(environ: dict[str, Any]) -> None:
        if environ["PATH_INFO"].endswith(name):
            store.after = None
            store.damage(environ["PATH_INFO"])

    store.after = damage
    assert publish(made, store, prefix) == 1
    assert f"{name} is not what was uploaded (SHA-256 differs): run it again." in capsys.readouterr().err
    assert publish(made, store, prefix) == 0


def test_a_target_of_another_lake_or_of_other_files_is_refused(
    made: Lake, store: ObjectStore, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(made, store, prefix)
    other = Lake.open(tmp_path / "other", create=True)
    add(other, range(5))
    before = store.content(prefix)
    assert publish(other, store, prefix) == 1
    said = capsys.readouterr().err
    assert f"belongs to the lake {made.description.name}, and this one is {other.description.name}" in said
    assert store.content(prefix) == before

    assert publish(other, store, prefix.partition("/")[0]) == 1
    assert "holds other files, and no published lake: give a prefix that is empty." in capsys.readouterr().err


def test_an_old_copy_of_the_lake_is_refused(
    made: Lake, store: ObjectStore, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(made, store, prefix)
    before = store.content(prefix)
    path = sorted(made.path.glob("archive/_delta_log/*.json"))[-1]
    text = path.read_text()
    for newest in (path, path.with_suffix(".checkpoint.parquet"), path.with_name("_last_checkpoint")):
        newest.unlink()
    assert publish(made, store, prefix) == 1
    path.write_text(text.replace('"size":', '"size": '))
    assert publish(made, store, prefix) == 1
    assert capsys.readouterr().err.count("restored from a backup, or is an old copy") == 2
    assert store.content(prefix) == before


def test_a_lake_whose_file_is_missing_or_damaged_is_refused(
    made: Lake, store: ObjectStore, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = made.paths("archive")[0]
    content = first.read_bytes()
    first.write_bytes(bytes(len(content)))
    assert publish(made, store, prefix) == 1
    assert "is not as it was committed: see with verify what else is." in capsys.readouterr().err
    first.unlink()
    assert publish(made, store, prefix) == 1
    assert f"{first} is missing" in capsys.readouterr().err
    assert ids_of(store.files(), f"{BUCKET}/{prefix}") == []


def test_two_publications_at_once_are_refused_and_an_export_is_not_held_up(
    made: Lake, store: ObjectStore, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with lake_lock(made, LOCK):
        assert publish(made, store, prefix) == 1
    assert "is being published by another run (pid" in capsys.readouterr().err
    with made.writing():
        assert publish(made, store, prefix) == 0


def test_a_compaction_while_files_are_uploaded_does_no_harm(
    made: Lake, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    # More files than are uploaded at a time.
    for n in range(40, 60):
        add(made, range(n, n + 1))

    def compact_once(environ: dict[str, Any]) -> None:
        if environ["PATH_INFO"].endswith(".parquet"):
            store.before = None
            merge_all(made)

    store.before = compact_once
    assert publish(made, store, prefix) == 0
    assert made.delta("archive").version() == 25
    assert ids_of(store.files(), f"{BUCKET}/{prefix}") == list(range(60))
    assert publish(made, store, prefix) == 0
    check_copy(made, store, prefix, tmp_path / "copy")


@pytest.mark.parametrize(
    ("to", "answer", "said"),
    [
        ("s3://no-such-bucket/lake", None, "s3://no-such-bucket/lake cannot be read or written: look at --to"),
        (None, ("403 Forbidden", "application/xml", DENIED), "ACCESS_DENIED"),
        (None, ("403 Forbidden", "application/xml", WRONG_KEY), "look at --to, --endpoint, the credentials"),
        (None, ("200 OK", "text/html", b"<html>welcome</html>"), "is not the mark of a published lake: look at"),
        (None, ("405 Method Not Allowed", "text/html", b""), "cannot be read or written: look at --to, --endpoint"),
        ("s3://key:canary-in-url@bucket/lake", None, "give credentials in the environment or in AWS's files"),
        ("s4://bucket/lake", None, "--to is no URL of an object store"),
        ("file:///folder", None, "--to is no URL of an object store"),
    ],
)
def test_an_error_of_the_store_is_one_line_without_credentials(
    made: Lake,
    store: ObjectStore,
    prefix: str,
    to: str | None,
    answer: tuple[str, str, bytes] | None,
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    store.answer = answer
    endpoint = [] if to and not to.startswith("s3:") else ["--endpoint", store.endpoint]
    assert main(["publish", "--lake", str(made.path), "--to", to or f"s3://{BUCKET}/{prefix}", *endpoint]) == 1
    shown = capfd.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert not [secret for secret in (KEY, SECRET, "canary-in-url") if secret in shown.err + shown.out]


def test_the_program_that_reads_the_copy_runs(store: ObjectStore, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Lake.open(lake, create=True)
    add(made, range(10))
    assert publish(made, store, "of-the-page") == 0
    [program] = [block.text for block in blocks(DOCS / "how-to/cluster.md") if "spark" in block.words]
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    names: dict[str, Any] = {}

    exec(program.replace("s3://shop-archive/lake", f"s3://{BUCKET}/of-the-page"), names)

    assert sorted(names["rows"]["id"].to_pylist()) == list(range(10))
