"""Steps in workers: a process that is killed does not repeat them, and a pause holds nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import channel_set
from django_pgqueue.flow import asteps_of, notify_event
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.worker.worker import QueueWorker
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import effects, script, where
from tests.worker.test_supervisor import Spawn

KILL = ["first", ["kill"]]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        # After the step, before the settlement of its message.
        ([["step", "charge", False, ["effect"]], KILL], [1]),
        ([["step", "write", True, ["effect"]], KILL], [1]),
        # Within the step: what an atomic one has written is rolled back.
        ([["step", "charge", False, ["effect"], KILL]], [1, 2]),
        ([["step", "write", True, ["effect"], KILL]], [2]),
        # After a pause, and before the next one.
        ([["step", "charge", False, ["effect"]], ["pause", 0.0], KILL, ["wait", "go"]], [1]),
    ],
)
def test_a_worker_that_is_killed_repeats_no_step_that_is_kept(spawn: Spawn, steps: list[Any], found: list[int]) -> None:
    message = script(*steps)
    notify_event("go")
    spawn("--lease", "600", "--concurrency", "1", processes=1)
    eventually(lambda: where(message) == "completed", seconds=60)
    assert effects() == [(message, attempt) for attempt in found]
    assert ArchivedMessage.objects.get(id=message).attempts == 2
    assert sql("SELECT count(*) FROM pgqueue_step") == [(0,)]


@pytest.mark.parametrize("pause", [["pause", 3600.0], ["wait", "never"]])
def test_a_pause_holds_no_slot_and_no_place_of_a_limit(start: Callable[..., QueueWorker], pause: list[Any]) -> None:
    channel_set(channel="small", max_concurrency=1)
    paused = [script(["effect"], pause, channel="small") for _ in range(3)]
    last = script(["effect"], channel="small")
    start(concurrency=1)
    eventually(lambda: where(last) == "completed")
    assert [where(message) for message in paused] == ["live: scheduled"] * 3
    assert len(effects()) == 4
    assert {*Message.objects.values_list("attempts", flat=True)} == {0}


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_an_event_lets_a_message_go_on_in_a_worker(
    start: Callable[..., QueueWorker], register: Callable[..., None], kind: str
) -> None:
    found: list[Any] = []

    async def handler(delivery: Any) -> None:
        step = asteps_of(delivery)
        await step("once", found.append, "once")
        found.append(await step.wait("go", timedelta(hours=1)))

    register("job.async", handler)
    message = script(
        ["step", "once", True, ["effect"]], ["wait", "go"], handler="scripted" if kind == "thread" else "job.async"
    )
    start(maintenance=True)
    eventually(lambda: where(message) == "live: scheduled")
    notify_event("go", 7)
    eventually(lambda: where(message) == "completed")
    assert ArchivedMessage.objects.get(id=message).attempts == 1
    assert (effects() == [(message, 1)]) if kind == "thread" else (found == ["once", 7])
