"""Publishing to a folder, a store without objects: each file is written beside, and moved to its place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.publish.target import Target, open_target, uploading
from tests.spark.test_compact import DAY, add

PLACE = f"archive/{DAY}/00000001-0.parquet"
CHUNK = b"x" * 1_000_000
SECONDS = 30


@pytest.fixture
def made(lake: Path) -> Lake:
    made = Lake.open(lake, create=True)
    for n in range(3):
        add(made, range(n * 10, n * 10 + 10))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.fixture
def target(made: Lake, folder: Path) -> Target:
    return open_target(folder.as_uri(), None, made.path)


class SlowSource:
    """A file to upload that comes bit by bit: a named pipe."""

    def __init__(self, path: Path, upload: Callable[[Path], None]) -> None:
        os.mkfifo(path)
        self._thread = threading.Thread(target=upload, args=[path])
        self._thread.start()
        self._pipe = open(path, "wb", buffering=0)  # noqa: SIM115

    def send(self, content: bytes) -> None:
        """Return when all but the last 64 kB of it, the size of a pipe, were read."""
        view = memoryview(content)
        while view:
            view = view[self._pipe.write(view) :]

    def end(self) -> None:
        self._pipe.close()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


@pytest.mark.timeout(2 * SECONDS)
def test_a_file_is_not_in_its_place_before_it_is_whole(target: Target, tmp_path: Path) -> None:
    source = SlowSource(tmp_path / "pipe", lambda path: target.upload(path, PLACE))
    source.send(3 * CHUNK)

    assert [*target.list()] == [f"{uploading(PLACE)}.part"]

    source.end()
    assert target.list() == {PLACE: 3 * len(CHUNK)}


@pytest.mark.timeout(2 * SECONDS)
def test_an_old_file_of_the_same_name_stays_until_the_new_one_is_whole(target: Target, tmp_path: Path) -> None:
    target.write(PLACE, "old")
    source = SlowSource(tmp_path / "pipe", lambda path: target.upload(path, PLACE))
    source.send(CHUNK)

    assert target.read(PLACE) == "old"

    source.end()
    assert target.list() == {PLACE: len(CHUNK)}


def test_files_that_a_killed_run_left_are_removed_by_the_next(made: Lake, folder: Path, target: Target) -> None:
    left = f"{uploading(PLACE)}.part"
    command = ["publish", "--lake", str(made.path), "--to", folder.as_uri()]
    assert main(command) == 0
    target.write(left, "half")

    assert main(command) == 0

    assert left not in target.list()
    assert {file.path for file in made.files("archive")} <= {*target.list()}
