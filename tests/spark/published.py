"""A lake, its copies, and their readers: what several files of tests about publishing share."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.compact import compact, find_work
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.lake.commit import day_of
from django_pgqueue.spark.lake.history import committed_files
from tests.spark.object_store import BUCKET, ObjectStore

NEVER = day_of("day=2999-12-31")


def arguments(lake: ParquetLake, store: ObjectStore, prefix: str, *options: str) -> list[str]:
    to = ["--to", f"s3://{BUCKET}/{prefix}", "--endpoint", store.endpoint]
    return ["publish", "--lake", str(lake.path), *to, *options]


def publish(lake: ParquetLake, store: ObjectStore, prefix: str, *options: str) -> int:
    return main(arguments(lake, store, prefix, *options))


def merge_all(lake: ParquetLake) -> None:
    """Compact all days; a test calls this in any thread, where a command could not handle signals."""
    compact(lake, list(find_work(lake, 128_000_000, NEVER)), 128_000_000)


def ids_by_commit(files: fs.FileSystem, root: str, table: str = "archive") -> list[int]:
    """The rows that a reader of commits sees: those of the files that the newest one lists."""
    commits = files.get_file_info(fs.FileSelector(f"{root}/_pgqueue/commits", allow_not_found=True))
    names = sorted(info.path for info in commits if info.path.endswith(".json"))
    if not names:
        return []
    with files.open_input_stream(names[-1]) as stream:
        commit = json.loads(stream.read())
    paths = [f"{root}/{file['table']}/{file['partition']}/{file['name']}" for file in commit["files"]]
    mine = [path for path in paths if path.startswith(f"{root}/{table}/")]
    tables = [pq.read_table(path, filesystem=files, columns=["id"], partitioning=None) for path in mine]
    return sorted(number for table in tables for number in table["id"].to_pylist())


def ids_in_folder(files: fs.FileSystem, root: str, table: str = "archive") -> Counter[int]:
    """The rows that a reader sees that opens the folder of a table, and how often."""
    folder = f"{root}/{table}"
    if files.get_file_info(folder).type == fs.FileType.NotFound:
        return Counter()
    found = ds.dataset(folder, filesystem=files, partitioning="hive")
    return Counter(found.to_table(columns=["id"])["id"].to_pylist() if found.files else [])


def check_copy(lake: ParquetLake, store: ObjectStore, prefix: str, folder: Path) -> None:
    """The bucket has the committed files of the lake, one commit, and nothing else. Brought back, it is whole."""
    objects = store.content(prefix)
    committed = committed_files(lake)
    control = {"README.txt", "_pgqueue/lake.json", "_pgqueue/published.json"}
    control |= {f"_pgqueue/commits/{lake.head.number:08}.json"}
    assert objects.keys() == committed.keys() | control
    assert all(objects[path] == (lake.path / path).read_bytes() for path in committed)
    for path, content in objects.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    assert main(["verify", "--lake", str(folder)]) == 0
    back = ParquetLake.open(folder)
    assert back.state == lake.state
    with back.writing() as writing:
        assert writing.commit("other").number == lake.head.number + 1
