"""The machine of ordered channels: its rules, and cases that chance takes long to come to."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from .ordered_rules import OrderedRules, delays
from .states import SECOND

OPEN = {"max_concurrency": None, "release_interval": None}


class OrderedMachine(OrderedRules):
    """Each case ends when all messages are settled, after all limits and pauses were lifted."""

    @rule(channel=st.sampled_from("ab"), why=st.sampled_from(["handler", "limit", "full"]))
    def wait_in_order(self, channel: str, why: str) -> None:
        """The message whose turn it is has to wait, and a more urgent one comes, which need not."""
        self.open_all()
        self.set_channel(channel, {"ordered": True})
        self.set_limit("y", {"max_concurrency": 1})
        if why == "full":
            self.enqueue("c", "h", ["y"], 5, 0, 0)
            self.dequeue(10)
        elif why == "limit":
            self.pause_limit("y", "pause")
        else:
            self.pause_handler("g", "pause")
        self.enqueue(channel, "g", ["y"], 5, 0, 0)
        self.dequeue(10)
        self.enqueue(channel, "h", [], 5, 5, 0)
        self.all_that_may_run_runs()

    @rule(channel=st.sampled_from("ab"), delay=st.none() | delays, later=st.sampled_from([0, 30 * SECOND]))
    def fail_in_order(self, channel: str, delay: int | None, later: int) -> None:
        """A message is given back or fails, gets another time, and others are behind it."""
        self.open_all()
        self.set_channel(channel, {"ordered": True})
        self.fill(channel, [], 2)
        self.dequeue(10)
        self.defer(0, delay)
        self.reschedule(0, later)
        self.enqueue(channel, "h", [], 5, 5, 0)
        self.all_that_may_run_runs()

    def open_all(self) -> None:
        """No limits, no pauses, no messages."""
        for name in "xy":
            self.set_limit(name, {**OPEN, "handlers": []})
            self.pause_limit(name, "resume")
        for name in self.model.lanes:
            self.set_channel(name, OPEN)
        for handler in "gh":
            self.pause_handler(handler, "resume")
        for _ in range(60):
            for name in self.model.lanes:
                self.pause_channel(name, "resume")
            while self.dequeue(10):
                for _ in self.model.leased():
                    self.complete(0)
            if not self.model.jobs:
                break
            self.complete(0)
            self.advance(31 * SECOND)
            self.tick()
        assert not self.model.jobs, f"messages {sorted(self.model.jobs)} never come to an end"

    def teardown(self) -> None:
        try:
            if self.sound:
                self.open_all()
        finally:
            self.queue.session.rollback()
