"""A publication that is killed at any request, and its readers between any two requests."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.lake import Lake
from tests.spark.object_store import BUCKET, ObjectStore
from tests.spark.published import arguments, check_copy, ids_of, merge_all, publish
from tests.spark.test_compact import NEXT_DAY, add

# The requests of a publication that write, about: uploads, copies, a commit, deletions.
REQUESTS = 20
OLD, NEW = [*range(50)], [*range(60)]


@pytest.fixture
def changed(lake: Path, store: ObjectStore, prefix: str) -> Lake:
    """A lake that was published, then compacted, and has got rows in both days since."""
    made = Lake.open(lake, create=True)
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
        self.seen: list[list[int]] = []

    def look(self) -> None:
        self.seen.append(ids_of(self.files, self.root))

    def check(self) -> None:
        assert all(seen in (OLD, NEW) for seen in self.seen)


def test_between_any_two_requests_a_version_is_whole(changed: Lake, store: ObjectStore, prefix: str) -> None:
    reader = Reader(store, prefix)
    store.before = lambda environ: reader.look()

    assert publish(changed, store, prefix) == 0
    reader.look()

    reader.check()
    assert len(reader.seen) >= 6
    assert (reader.seen[0], reader.seen[-1]) == (OLD, NEW)


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
    changed: Lake,
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
    assert reader.seen[-1] == NEW, step
    check_copy(changed, store, prefix, tmp_path / "copy")
