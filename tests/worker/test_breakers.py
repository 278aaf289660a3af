"""Running workers keep to the breaker that a handler declares, also after a kill."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from django_pgqueue import breaker_set
from django_pgqueue.models import ArchivedMessage, Message, SharedLimit
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, script
from tests.worker.scripted.handlers import BREAKER

Spawn = Callable[..., Process]
GUARDED: dict[str, Any] = {"handler": "scripted.guarded", "max_attempts": 3}


def tries() -> list[bool]:
    """Whether each message that tried has failed, in the order of time."""
    return [failed for (failed,) in sql("SELECT failed FROM pgqueue_breaker_outcome WHERE tried ORDER BY ended_at")]


def opened() -> int:
    return sum(SharedLimit.objects.values_list("openings", flat=True))


def test_a_worker_that_is_killed_while_it_tries_keeps_it_open_and_another_message_tries(spawn: Spawn) -> None:
    # The worker writes it when it starts, but does not wait for that.
    breaker_set("scripted.guarded", BREAKER)
    for _ in range(2):
        script(["first", ["fail"]], **GUARDED)
    first = spawn("--lease", "1", "--concurrency", "2", SCRIPTED_BREAKER="1")
    eventually(lambda: sql("SELECT count(*) FROM pgqueue_breaker_outcome WHERE failed") == [(2,)])
    killer = script(["first", ["kill"]], **GUARDED, priority=9)
    others = [script(["mark", "done"], **GUARDED) for _ in range(8)]
    assert first.wait() == -signal.SIGKILL

    spawn("--lease", "1", "--concurrency", "2", SCRIPTED_BREAKER="1")

    eventually(lambda: ArchivedMessage.objects.filter(outcome="completed").count() == 11)
    assert tries()[0] is True
    assert tries()[-1] is False
    assert opened() == 1
    assert set(ArchivedMessage.objects.filter(id__in=others).values_list("attempts", flat=True)) == {1}
    assert ArchivedMessage.objects.get(id=killer).attempts == 2
    assert not Message.objects.exists()
