"""A lake, its copies, and their readers: what several files of tests about publishing share."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.compact import compact, find_work
from django_pgqueue.spark.lake import Lake
from tests.spark.object_store import BUCKET, ObjectStore


def arguments(lake: Lake, store: ObjectStore, prefix: str) -> list[str]:
    to = ["--to", f"s3://{BUCKET}/{prefix}", "--endpoint", store.endpoint]
    return ["publish", "--lake", str(lake.path), *to]


def publish(lake: Lake, store: ObjectStore, prefix: str) -> int:
    return main(arguments(lake, store, prefix))


def merge_all(lake: Lake) -> None:
    """Compact all days; a test calls this in any thread, where a command could not handle signals."""
    compact(lake, list(find_work(lake, 128_000_000, date(2999, 12, 31))))


def versions_of(lake: Lake) -> int:
    return sum(lake.versions.values())


def ids_of(files: fs.FileSystem, root: str, table: str = "archive") -> list[int]:
    """The rows that a reader of Delta sees in a copy: it brings the log here, and reads the files that this lists."""
    with tempfile.TemporaryDirectory() as folder:
        for info in files.get_file_info(fs.FileSelector(f"{root}/{table}/_delta_log", allow_not_found=True)):
            (Path(folder) / "_delta_log").mkdir(exist_ok=True)
            with files.open_input_stream(info.path) as stream:
                (Path(folder) / "_delta_log" / info.base_name).write_bytes(stream.read())
        if not DeltaTable.is_deltatable(folder):
            return []
        actions = pa.table(DeltaTable(folder).get_add_actions(flatten=True))
        paths = [f"{root}/{table}/{path}" for path in actions["path"].to_pylist()]
    tables = [pq.read_table(path, filesystem=files, columns=["id"], partitioning=None) for path in paths]
    return sorted(number for table in tables for number in table["id"].to_pylist())


def check_copy(lake: Lake, store: ObjectStore, prefix: str, folder: Path) -> None:
    """The bucket has the files of the newest versions and their logs. Brought back, it is whole."""
    objects = store.content(prefix)
    committed = {file.path for table in schema.TABLES for file in lake.files(table)}
    assert committed <= objects.keys()
    for table, version in lake.versions.items():
        names = ["_last_checkpoint", f"{version:020}.checkpoint.parquet", f"{version:020}.json"]
        assert {f"{table}/_delta_log/{name}" for name in names} <= objects.keys()
    assert {path for path in objects if path.startswith("_pgqueue")} == {"_pgqueue/lake.json"}
    assert all(objects[path] == (lake.path / path).read_bytes() for path in committed)
    for path, content in objects.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    assert main(["verify", "--lake", str(folder)]) == 0
    back = Lake.open(folder)
    assert (back.exported(), back.versions) == (lake.exported(), lake.versions)
    with back.writing() as writing:
        writing.commit("archive", "other")
    assert versions_of(back) == versions_of(lake) + 1
