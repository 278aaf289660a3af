"""A violation is seen, and reported with its invariant and its place: whole histories, and the end of a run."""

from __future__ import annotations

import pytest

from tests.support.cases import cases
from verification.chaos.checker import check
from verification.chaos.history.load import forget
from verification.chaos.story import SCHEDULED, Story, lived, only, violated


def test_a_good_history_breaks_nothing_and_exercises_everything() -> None:
    story = Story()
    story.run["equal_channels"] = []
    story.run["effects"] = {"atomic": "atomic"}
    story.queue(max_concurrency=3)
    story.queue("crowd", max_concurrency=4, fairness="share", max_share=0.5)
    story.limit(1, max_concurrency=1, max_cost=5)
    story.breaker()
    story.channel(1)
    story.channel(2, max_concurrency=1, ordered=True, max_size=2, release_interval=1000, release_burst=1)
    story.channel(3, queue="crowd")
    story.create(1, kind="atomic", detail={"order_key": "k"})
    story.create(2, channel=2, detail={"guarded": "h"})
    story.create(3, channel=2, detail={"limits": [1]})
    story.create(4, channel=3, detail={"batch": 7, "unique": {"key": "k", "until": "settled"}})
    story.op("enqueue", keys=["other:5"], channel="channel 2", result="fail", value={"error": "channel full"})
    story.lease(1, "a")
    story.beat(1)
    story.census(1, 2, 3, 4, live=4)
    story.lease(2, "b")
    story.dead_letter(2)
    story.sweep(1)
    story.op("complete", ids=[1], tokens=["a"], result="fail", value={"error": "lease lost"})
    story.lease(1, "c")
    story.wait(1)
    story.op("handle", message=1, token="c", slow=True)
    with story.transaction():
        story.row("effect", message=1, outcome="atomic")
        story.complete(1)
    story.infos.clear()
    story.info("calm")
    story.serve(3, 4)
    debounced = {"key": "d", "until": "due", "at_most": "1 s"}
    story.create(6, channel=3, detail={"after": 7, "awaits": [4], "unique": debounced})
    story.serve(6)
    story.create(7, channel=3, kind="steps")
    story.lease(7, "g")
    story.row("stepped", message=7)
    story.row("step", message=7, key="steps:7", outcome="wait")
    story.give_back(7, status=SCHEDULED)
    story.row("event", key="steps:7")
    story.serve(7)
    story.info("drained")
    story.info("server", sqlstate="57P01", message="terminating connection", pid=1)
    story.read(1, dead=(2,))
    story.read(3, 4, 6, 7, last=True)
    story.census(1, 2, 3, 4, 6, 7, final=True)
    verdicts = check(story.history())
    assert {verdict.name: verdict.violations for verdict in verdicts if verdict.violations} == {}
    assert [verdict.name for verdict in verdicts if not verdict.checked] == []
    assert [verdict.name for verdict in verdicts] == [f"I{number}" for number in range(1, 32)]


def test_a_call_whose_answer_was_lost_may_have_been_done_or_not() -> None:
    story = Story()
    lived(story, 1)
    story.ops[0] = story.op("enqueue", keys=["other:1"], channel="channel 1", result="unknown")
    story.op("enqueue", keys=["other:2"], channel="channel 1", result="unknown")
    story.ops.pop()
    assert violated(story) == {}


def test_i13_what_is_not_settled_in_time() -> None:
    story = Story()
    lived(story, 1)
    story.info("calm")
    story.wait(31)
    story.info("drained")
    assert only(story, "I13") == "drained 31.0 s after the last fault, 30 s allowed"


def test_i13_what_is_never_settled() -> None:
    story = Story()
    story.run["drained"] = False
    story.create(1)
    story.info("calm")
    assert only(story, "I13") == "not drained within 30 s: 1 messages are left, such as [1]"


def test_i13_a_message_that_waits_while_no_message_is_served() -> None:
    story = Story()
    story.info("calm")
    story.create(1)
    story.wait(12)
    story.serve(1)
    story.info("drained")
    assert "message 1 was ready, and no message was served for 12.0 s" in only(story, "I13")


@cases("state", ["40P01", "40001", "XX000", "23505"])
def test_i14_errors_that_no_fault_explains(state: str) -> None:
    story = Story()
    story.info("server", sqlstate=state, message="deadlock detected", pid=42)
    assert only(story, "I14") == f"{state} deadlock detected (process 42)"


@pytest.mark.parametrize(("kind", "count"), [("full disk", 0), ("kill", 1)])
def test_i14_an_internal_error_that_follows_from_a_fault(kind: str, count: int) -> None:
    story = Story()
    story.info("fault", kind=kind)
    story.info("server", sqlstate="XX000", message="checkpoint request failed", pid=42)
    assert len(violated(story).get("I14", [])) == count


def test_operations_that_a_standby_had_not_got_may_be_lost() -> None:
    story = Story()
    lived(story, 1)
    since = story.now
    story.wait(1)
    story.op("enqueue", keys=["other:2"], channel="channel 1")
    story.op("complete", ids=[2], tokens=["b"], value={"done": [2]})
    assert set(violated(story)) == {"I1", "I3", "I4"}
    verdicts = check(forget(story.history(), since, story.now))
    assert [verdict.name for verdict in verdicts if verdict.broken] == []
    assert verdicts[0].checked
