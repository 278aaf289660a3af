"""The machine of limits: its rules, and cases that chance takes long to come to."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from .limit_rules import LimitRules, costs
from .states import SECOND

FREE = {"max_concurrency": None, "max_cost": None, "release_interval": None}
TURNS = {"fairness": "turns"}


class LimitMachine(LimitRules):
    """Each case begins without limits and messages, and ends when nothing more may run."""

    def open_all(self) -> None:
        """No limits, no pauses, no messages."""
        for name in ("x", "y"):
            self.pause_limit(name, "resume")
            self.set_limit(name, FREE | {"handlers": []})
        for name in ("q", "r"):
            self.pause_queue(name, "resume")
            self.set_queue(name, {"max_concurrency": None, "release_interval": None, "max_share": None, **TURNS})
        for _ in range(40):
            self.complete(list(range(len(self.model.leased()))))
            self.resume_channels()
            if not self.model.jobs:
                break
            self.pass_time(40 * SECOND)
            self.tick()
            self.dequeue("q", 10)
            self.dequeue("r", 10)
        assert not self.model.jobs, "some messages never come to an end"

    @rule(costs=st.lists(costs, min_size=3, max_size=5), corrected=costs, metered=st.booleans())
    def run_at_a_cost(self, costs: list[int], corrected: int, metered: bool) -> None:
        """By a rate that the messages take their cost of, or with as much cost in flight."""
        self.open_all()
        kind = {"release_interval": SECOND, "release_burst": 6} if metered else {"max_cost": 10}
        self.set_limit("x", {**FREE, **kind})
        for cost in costs:
            self.enqueue("a", "g", ["x"], cost, 5)
        for _ in range(3):
            self.all_that_may_run_runs()
            self.spend([0], corrected)
            self.complete([1])

    @rule(limit=st.sampled_from([1, 2]))
    def run_by_handler(self, limit: int) -> None:
        self.open_all()
        self.set_limit("y", {**FREE, "max_concurrency": limit, "handlers": ["h"]})
        for channel in "aabe":
            self.enqueue(channel, "h", [], 1, 5)
        self.all_that_may_run_runs()

    @rule()
    def wait_for_a_paused_limit(self) -> None:
        self.open_all()
        self.set_limit("x", {**FREE, "max_concurrency": 2})
        self.pause_limit("x", "pause")
        self.enqueue("a", "g", ["x"], 1, 5)
        self.enqueue("a", "g", [], 1, 5)
        self.all_that_may_run_runs()

    @rule(kind=st.sampled_from(["paused", "full"]))
    def wait_in_a_closed_queue(self, kind: str) -> None:
        """A message of it is first to wait for a place; then one of an open queue."""
        self.open_all()
        self.set_limit("x", {**FREE, "max_concurrency": 1})
        if kind == "paused":
            self.pause_queue("q", "pause")
        else:
            self.set_queue("q", {"max_concurrency": 1})
            self.enqueue("b", "g", [], 1, 5)
            self.all_that_may_run_runs()
        self.enqueue("a", "g", ["x"], 1, 5)
        self.tick()
        self.enqueue("e", "g", ["x"], 1, 5)
        self.all_that_may_run_runs()

    @rule(first=st.sampled_from("ab"), held=st.integers(3, 6), limit=st.sampled_from([2, 4]))
    def come_late(self, first: str, held: int, limit: int) -> None:
        """One channel holds many leases when another one comes."""
        self.open_all()
        self.set_queue("q", {"fairness": "share"})
        for _ in range(held + 4):
            self.enqueue(first, "g", [], 1, 5)
        self.dequeue("q", held)
        for _ in range(6):
            self.enqueue("b" if first == "a" else "a", "g", [], 1, 5)
        for _ in range(3):
            self.dequeue("q", limit)

    @rule(limit=st.sampled_from([{"max_share": 0.5}, {"release_interval": SECOND, "release_burst": 2}]))
    def crowd_a_queue(self, limit: dict[str, Any]) -> None:
        """More messages of one channel than the limit of the queue lets start, in one call and in two."""
        self.open_all()
        self.set_queue("q", limit)
        for _ in range(6):
            self.enqueue("a", "g", [], 1, 5)
        self.dequeue("q", 10)
        self.dequeue("q", 10)
        self.all_that_may_run_runs()

    @rule(costs=st.lists(costs, min_size=3, max_size=5), corrected=costs)
    def run_a_queue_at_a_cost(self, costs: list[int], corrected: int) -> None:
        self.open_all()
        self.set_queue("q", {"release_interval": SECOND, "release_burst": 6})
        for place, cost in enumerate(costs):
            self.enqueue("ab"[place % 2], "g", [], cost, 5)
        for _ in range(3):
            self.all_that_may_run_runs()
            self.spend([0], corrected)
            self.complete([1])

    @rule(channel=st.sampled_from("cd"), verb=st.sampled_from(["retry", "dead_letter"]))
    def die_in_order(self, channel: str, verb: str) -> None:
        self.open_all()
        for _ in range(3):
            self.enqueue(channel, "g", [], 1, 1)
        self.dequeue("q", 10)
        if verb == "retry":
            self.retry([0], 0)
        else:
            self.dead_letter([0])
        # Before the next dequeue, which would pause the channel, too.
        self.the_messages_are_as_the_model_says()
        self.all_that_may_run_runs()
