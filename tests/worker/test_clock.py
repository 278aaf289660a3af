"""The clock of a worker's machine may be wrong: leases, delays and rates go by the clock of the database."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from django_pgqueue import channel_set
from django_pgqueue.models import ArchivedMessage, Message
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, mark, marks, script, scripts, where


@pytest.mark.parametrize("offset", ["+1h", "-1h"])
@pytest.mark.parametrize("processes", [0, 1])
def test_a_worker_whose_clock_is_an_hour_off_works_like_any_other(
    spawn: Callable[..., Process], faketime: str, offset: str, processes: int
) -> None:
    channel_set(channel="slow", release_interval=timedelta(seconds=0.2))
    soon = {"delay": timedelta(seconds=0.5)}
    messages = [
        *scripts(5, ["effect"]),
        *scripts(5, ["effect"], handler="scripted.atomic"),
        *scripts(3, ["effect"], channel="slow"),
        script(["effect"], **soon),
        script(["first", ["retry", 0.5]], ["effect"]),
        script(["fresh", ["defer", 0.5, {"step": 1}]], ["effect"]),
    ]
    later = script(["effect"], delay=timedelta(minutes=50))
    long = script(["mark", "running"], ["await", "go"])
    worker = spawn(
        "--lease", "2", processes=processes,
        LD_PRELOAD=faketime, FAKETIME=offset, FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_RESET="1",
    )  # fmt: skip
    eventually(lambda: ArchivedMessage.objects.count() == len(messages))
    assert {where(message) for message in messages} == {"completed"}
    eventually(lambda: marks("running"))
    expires_at = Message.objects.get(id=long).lease_expires_at
    eventually(lambda: Message.objects.get(id=long).lease_expires_at > expires_at + timedelta(seconds=1))
    soon_over = "SELECT lease_expires_at < clock_timestamp() + interval '3 s' FROM pgqueue_message WHERE id = %s"
    assert sql(soon_over, long) == [(True,)]
    seen = "SELECT clock_timestamp() - heartbeat_at BETWEEN '0' AND '1 minute' FROM pgqueue_worker"
    assert set(sql(seen)) == {(True,)}
    mark("go")
    eventually(lambda: where(long) == "completed")
    assert where(later) == "live: scheduled"
    assert later not in dict(effects())
    assert sql("SELECT count(*) FROM pgqueue_archived_message WHERE archived_at > clock_timestamp()") == [(0,)]
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "is lost" not in worker.log
    assert abs(started_at(worker) - time.time()) > 3000, "its clock was not wrong"


def started_at(worker: Process) -> float:
    """By its own clock: the time in the first line of its log."""
    return time.mktime(time.strptime(worker.log[:19], "%Y-%m-%d %H:%M:%S"))
