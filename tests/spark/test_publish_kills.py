"""A publication that is killed at any request, and its readers between any two requests."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import fs

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import ParquetLake
from tests.spark.object_store import BUCKET, ObjectStore
from tests.spark.published import arguments, check_copy, ids_by_commit, ids_in_folder, merge_all, publish
from tests.spark.test_compact import NEXT_DAY, add

# The requests of a publication that write, about: uploads, copies, a commit, deletions.
REQUESTS = 20
OLD, NEW = [*range(50)], [*range(60)]


@pytest.fixture
def changed(lake: Path, store: ObjectStore, prefix: str) -> ParquetLake:
    """A lake that was published, then compacted, and has got rows in both days since."""
    made = ParquetLake.open(lake, create=True)
    for n in range(4):
        add(made, range(n * 10, n * 10 + 10))
    add(made, range(40, 50), NEXT_DAY)
    assert publish(made, store, prefix) == 0
    merge_all(made)
    add(made, range(50, 55))
    add(made, range(55, 60), NEXT_DAY)
    return made


class Reader:
    """Reads the copy whenever it is called, and keeps what it saw."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.files, self.root = store.files(), f"{BUCKET}/{prefix}"
        self.by_commit: list[list[int]] = []
        self.by_folder: list[Counter[int]] = []

    def look(self) -> None:
        self.by_commit.append(ids_by_commit(self.files, self.root))
        self.by_folder.append(ids_in_folder(self.files, self.root))

    def check(self) -> None:
        assert all(ids in (OLD, NEW) for ids in self.by_commit)
        assert all(seen.keys() >= {*OLD} and max(seen.values()) <= 2 for seen in self.by_folder)
        # Rows that are only added are there once.
        assert all(seen[number] <= 1 for seen in self.by_folder for number in range(40, 60))


def test_between_any_two_requests_a_commit_is_whole_and_no_row_is_missing(
    changed: ParquetLake, store: ObjectStore, prefix: str
) -> None:
    reader = Reader(store, prefix)
    twice: list[tuple[str, str, bool]] = []

    def look(environ: dict[str, Any]) -> None:
        reader.look()
        if max(reader.by_folder[-1].values()) == 2:
            key = environ["PATH_INFO"].partition(prefix)[2]
            twice.append((environ["REQUEST_METHOD"], key, "HTTP_X_AMZ_COPY_SOURCE" in environ))

    store.before = look
    assert publish(changed, store, prefix) == 0
    reader.look()

    reader.check()
    assert len(reader.by_commit) >= 12
    assert (reader.by_commit[0], reader.by_commit[-1]) == (OLD, NEW)
    assert reader.by_folder[-1] == Counter(NEW)
    # While rows are there twice, no data is uploaded: the store copies, the commit is written, old files are deleted.
    assert twice
    uploads = [key for method, key, copied in twice if method != "DELETE" and not copied and not key.endswith("/")]
    assert {key.rpartition("/")[0] for key in uploads} <= {"/_pgqueue/commits"}


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize(
    ("sent", "steps"),
    [
        pytest.param(signal.SIGKILL, range(1, 6), id="killed-early"),
        pytest.param(signal.SIGKILL, range(6, REQUESTS), id="killed-late"),
        pytest.param(signal.SIGTERM, range(1, REQUESTS), id="terminated"),
    ],
)
def test_a_run_that_is_ended_at_any_request_is_continued_by_the_next(
    changed: ParquetLake,
    store: ObjectStore,
    prefix: str,
    tmp_path: Path,
    sent: signal.Signals,
    steps: range,
    answered: bool,
) -> None:
    step, requests = random.choice(steps), 0
    reader = Reader(store, prefix)

    def end(environ: dict[str, Any]) -> None:
        nonlocal requests
        requests += 1
        if requests == step:
            process.send_signal(sent)
            if sent == signal.SIGKILL:
                process.wait(60)

    if answered:
        store.after = end
    else:
        store.before = end
    command = [sys.executable, "-m", "django_pgqueue.spark", *arguments(changed, store, prefix)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=120)
    if requests >= step:
        # A signal that arrives with the last request may find the work done.
        expected = {-signal.SIGKILL} if sent == signal.SIGKILL else {143, 0}
        assert process.returncode in expected, (step, said)
    store.reset()

    reader.look()
    reader.check()
    assert publish(changed, store, prefix) == 0, step
    reader.look()
    assert (reader.by_commit[-1], reader.by_folder[-1]) == (NEW, Counter(NEW)), step
    check_copy(changed, store, prefix, tmp_path / "copy")
    assert not list(changed.control.glob("publishing/pgqueue-spark-*")), step


def test_a_file_that_was_uploaded_before_a_run_failed_is_not_uploaded_again(
    changed: ParquetLake, store: ObjectStore, prefix: str
) -> None:
    def refuse_the_commit(environ: dict[str, Any]) -> None:
        if "/commits/" in environ["PATH_INFO"]:
            store.answer = ("403 Forbidden", "application/xml", b"<Error><Code>AccessDenied</Code></Error>")

    store.before = refuse_the_commit
    assert publish(changed, store, prefix) == 1
    store.reset()
    assert ids_by_commit(store.files(), f"{BUCKET}/{prefix}") == OLD
    requests: list[tuple[str, str]] = []
    store.before = lambda environ: requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))

    assert publish(changed, store, prefix) == 0

    assert ids_by_commit(store.files(), f"{BUCKET}/{prefix}") == NEW
    assert requests
    assert not [path for method, path in requests if method != "DELETE" and path.endswith(".parquet")]


def test_readers_beside_publications_miss_no_row(tmp_path: Path, store: ObjectStore, prefix: str, lake: Path) -> None:
    """In parallel: pyarrow and the commits in the bucket, and DuckDB in a folder."""
    made = ParquetLake.open(lake, create=True)
    add(made, range(10))
    folder, done, seen = tmp_path / "copy", threading.Event(), Counter[str]()
    to_folder = ["publish", "--lake", str(lake), "--to", folder.as_uri()]
    assert publish(made, store, prefix) == 0
    assert main(to_folder) == 0
    problems: list[object] = []

    def read_on() -> None:
        files, root, local = store.files(), f"{BUCKET}/{prefix}", fs.LocalFileSystem()
        with duckdb.connect() as database:
            query = f"SELECT id FROM read_parquet('{folder}/archive/*/*.parquet')"
            while not done.is_set():
                for name, read in {
                    "bucket": lambda: ids_in_folder(files, root),
                    "commit": lambda: Counter(ids_by_commit(files, root)),
                    "folder": lambda: Counter(number for (number,) in database.execute(query).fetchall()),
                    "commit in folder": lambda: Counter(ids_by_commit(local, str(folder))),
                }.items():
                    try:
                        ids = read()
                    except (OSError, duckdb.IOException):
                        seen["replaced"] += 1  # a file that was listed is gone: the reader asks again
                        continue
                    seen[name] += 1
                    if {*range(10)} - ids.keys() or max(ids.values()) > (1 if "commit" in name else 2):
                        problems.append((name, ids))

    reader = threading.Thread(target=read_on)
    reader.start()
    try:
        for n in range(1, 7):
            add(made, range(n * 10, n * 10 + 10))
            if n % 2:
                merge_all(made)
            assert publish(made, store, prefix) == 0
            assert main(to_folder) == 0
    finally:
        done.set()
        reader.join()
    assert problems == []
    assert min(seen[name] for name in ("bucket", "commit", "folder", "commit in folder")) > 0
    shutil.rmtree(folder)
