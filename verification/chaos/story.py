"""Histories made by hand, for the tests of the checker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .checker import check
from .history import History, Info, Op, Row
from .history.events import LEASED, READY, SCHEDULED

SECOND = 1_000_000
LEASE = 10 * SECOND


@dataclass(slots=True)
class Story:
    """Each verb is a transaction a millisecond after the last, or part of `with story.transaction():`.

    The answer of the queue is written down with each, unless a test says that a client got another one.
    """

    rows: list[Row] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)
    run: dict[str, Any] = field(default_factory=lambda: {"drain_within": 30 * SECOND, "batch": 1})
    now: int = SECOND
    xid: int = 100
    _inside: bool = False
    _live: dict[int, dict[str, Any]] = field(default_factory=dict)

    def history(self) -> History:
        return History(self.run, sorted(self.ops, key=lambda op: op.began), self.infos, self.rows)

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._step()
        self._inside = True
        yield
        self._inside = False

    def _step(self) -> None:
        if not self._inside:
            self.now += 1000
            self.xid += 1

    def row(self, event: str, **fields: Any) -> Row:
        self._step()
        at = fields.pop("at", self.now - 100)
        self.rows.append(Row(len(self.rows), self.xid, fields.pop("committed", self.now), at, event, **fields))
        return self.rows[-1]

    def op(self, verb: str, *, result: Any = "ok", value: Any = None, **args: Any) -> Op:
        """A call that lasts half a millisecond around now, with everything before it and nothing after it committed."""
        op = Op("client", len(self.ops) + 1, verb, args, self.now - 400, self.now + 400, result, value or {})
        self.ops.append(op)
        return op

    def info(self, verb: str, **fields: Any) -> None:
        self._step()
        self.infos.append(Info("driver", verb, self.now, fields))

    # The life of a message.

    def channel(self, number: int = 1, **limits: Any) -> None:
        self.row("channel", channel=number, key=f"channel {number}", detail=limits)

    def queue(self, name: str = "default", **limits: Any) -> None:
        self.row("queue", key=name, detail=limits)

    def gate(self, *messages: int, queue: str = "default") -> None:
        """A dequeue of a queue with limits lists the leases that it has counted, and the messages that it takes."""
        self.row("gate", key=queue, detail={"held": list(messages)})

    def limit(self, number: int = 1, **values: Any) -> None:
        self.row("limit", key=f"limit {number}", detail={"id": number, **values})

    def breaker(self, *, open_for: float | None = None) -> None:
        """The breaker of the handler h is open for so many seconds from now on; None: it is closed."""
        until = None if open_for is None else self.now + int(open_for * SECOND)
        self.row("limit", key="breaker of h", detail={"id": 9, "breaker": "h", "open_until": until})

    def create(
        self, *messages: int, channel: int = 1, kind: str = "other", due: int | None = None, status: int = READY,
        **row: Any,
    ) -> None:  # fmt: skip
        for message in messages:
            # A redriven one has no key.
            key = None if "redriven_from" in row.get("detail", {}) else f"{kind}:{message}"
            at = self.now if due is None else due
            self._live[message] = {
                "channel": channel,
                "attempts": 0,
                "max_attempts": 2,
                "token": None,
                "dequeue_at": at,
            }
            self.row(
                "created", message=message, channel=channel, key=key, status=status, attempts=0, max_attempts=2,
                dequeue_at=at, priority=0, **row,
            )  # fmt: skip
            if key:
                self.op("enqueue", keys=[key], channel=f"channel {channel}")

    def change(self, message: int, status: int, *, token: str | None, attempts: int, **row: Any) -> None:
        live = self._live[message]
        was = {
            "was_attempts": live["attempts"],
            "was_token": live["token"],
            "was_status": LEASED if live["token"] else READY,
        }
        common = {"channel": live["channel"], "max_attempts": 2, "dequeue_at": live["dequeue_at"], "priority": 0}
        live.update(token=token, attempts=attempts)
        fields = {**was, **common, "message": message, "status": status, "token": token, "attempts": attempts, **row}
        self.row("changed", **fields)

    def lease(self, message: int, token: str, **row: Any) -> None:
        attempts = row.pop("attempts", self._live[message]["attempts"] + 1)
        times = {"leased_at": self.now, "expires_at": self.now + LEASE}
        self.change(message, LEASED, token=token, attempts=attempts, **{**times, **row})

    def beat(self, message: int, *, extends: bool = True) -> None:
        live = self._live[message]
        if extends:
            self.change(message, LEASED, token=live["token"], attempts=live["attempts"], expires_at=self.now + LEASE)
        self.op("heartbeat", ids=[message], tokens=[live["token"]], lease=LEASE, value={"done": [message]})

    def give_back(self, message: int, *, swept: bool = False, status: int = READY, answered: bool = True) -> None:
        token = self._live[message]["token"]
        settled = None if swept else token
        self.change(message, status, token=None, attempts=self._live[message]["attempts"], settled_token=settled)
        if answered and not swept:
            self.op("retry", ids=[message], tokens=[token], value={"done": [message]})

    def put_off(self, message: int) -> None:
        """To the end of its channel."""
        self._live[message]["dequeue_at"] = self.now
        self.give_back(message)

    def handle(self, message: int) -> None:
        """A worker runs its handler."""
        self._step()
        live = self._live[message]
        self.op("handle", message=message, token=live["token"], attempt=live["attempts"])

    def refund(self, message: int, **row: Any) -> None:
        """Give it back as if it had never been leased."""
        live = self._live[message]
        token = live["token"]
        self.change(message, READY, token=None, attempts=live["attempts"] - 1, settled_token=token, **row)

    def sweep(self, message: int) -> None:
        self.wait(LEASE / SECOND)
        self.give_back(message, swept=True)

    def complete(self, *messages: int, token: str | None = None, answered: bool = True) -> None:
        for message in messages:
            live = self._live[message]
            given = token or live["token"]
            with self.transaction():
                self.row("gone", message=message, channel=live["channel"], was_status=LEASED, was_token=live["token"])
                self.row("archived", message=message, attempts=live["attempts"], token=given, outcome="completed")
            if answered:
                self.op("complete", ids=[message], tokens=[given], value={"done": [message]})

    def serve(self, *messages: int) -> None:
        """Lease and complete each."""
        for message in messages:
            self.lease(message, f"token of {message}, {self.xid}")
            self.complete(message)

    def dead_letter(self, message: int) -> None:
        with self.transaction():
            self.row("gone", message=message, channel=self._live[message]["channel"], was_status=LEASED)
            self.row("dead", message=message, token=self._live[message]["token"], outcome="failed")

    def census(self, *messages: int, live: int = 0, twice: list[int] | None = None, final: bool = False) -> None:
        self._step()
        ranges = [[message, message] for message in messages]
        self.op("census", final=final, value={"live": live, "twice": twice or [], "ranges": ranges})

    def read(self, *archived: int, dead: tuple[int, ...] = (), last: bool = False) -> None:
        self._step()
        self.op("read", last=last, value={"seen": {"archived": list(archived), "dead": list(dead)}})


def violated(story: Story) -> dict[str, list[str]]:
    return {verdict.name: verdict.violations for verdict in check(story.history()) if verdict.violations}


def only(story: Story, invariant: str) -> str:
    """The one violation there is, of this invariant."""
    found = violated(story)
    assert set(found) == {invariant}, found
    assert len(found[invariant]) == 1, found
    return found[invariant][0]


def lived(story: Story, message: int, token: str | None = None) -> None:
    """A whole life, as it must be."""
    story.create(message)
    story.lease(message, token or f"token of {message}")
    story.complete(message)


__all__ = ["LEASE", "LEASED", "READY", "SCHEDULED", "SECOND", "Story", "lived", "only", "violated"]
