"""From rows to what they mean: the life of each message, and its leases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from verification.chaos.history import History, Row
from verification.chaos.history.events import LEASED

# What handlers and their steps write beside the message.
NOT_OF_LIFE = ("effect", "business", "step", "stepped")


@dataclass(slots=True)
class Lease:
    """From the commit of its dequeue to that of its end; ``how``: returned | deferred | interrupted | swept | settled,
    or None."""

    granted: Row
    expires_at: int
    ended: Row | None = None
    how: str | None = None

    @property
    def token(self) -> str | None:
        return self.granted.token

    def __str__(self) -> str:
        return f"lease {short(self.token)} of message {self.granted.message}"


@dataclass(slots=True)
class Life:
    """The history of one message: all its rows, in order, and the leases that follow from them."""

    message: int
    rows: list[Row] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)

    @property
    def created(self) -> Row | None:
        return next((row for row in self.rows if row.event == "created"), None)

    def ends(self) -> list[Row]:
        return [row for row in self.rows if row.event in ("archived", "dead")]


class Lives(dict[int, Life]):
    """By the id of the message."""

    def __init__(self, history: History) -> None:
        super().__init__()
        for row in history.rows:
            if row.message is not None and row.event not in NOT_OF_LIFE:
                life = self.get(row.message)
                if life is None:
                    life = self[row.message] = Life(row.message)
                life.rows.append(row)
                follow(life, row)

    def key(self, life: Life) -> str:
        """Return the key of the message that was enqueued: a redrive begins a new life of the same."""
        created = life.created
        while created and created.key is None and (before := self.get((created.detail or {}).get("redriven_from", 0))):
            created = before.created
        return (created.key if created else None) or ""

    def leases(self) -> Iterator[Lease]:
        return (lease for life in self.values() for lease in life.leases)


def follow(life: Life, row: Row) -> None:
    """Apply a row to the leases of its message."""
    open_lease = life.leases[-1] if life.leases and life.leases[-1].ended is None else None
    if is_grant(row):
        life.leases.append(Lease(row, row.expires_at or row.at))
    elif open_lease is None:
        return
    elif row.event == "gone":
        # The sweep fences with a new token before it buries.
        if open_lease.how != "swept":
            open_lease.how = "settled"
        open_lease.ended = row
    elif row.event == "changed" and row.was_status == LEASED and row.status != LEASED:
        open_lease.ended = row
        open_lease.how = how_returned(row)
    elif row.event == "changed" and row.token != open_lease.token:
        open_lease.how = "swept"
    elif row.event == "changed":
        open_lease.expires_at = row.expires_at or open_lease.expires_at


def how_returned(row: Row) -> str:
    if row.attempts is not None and row.was_attempts is not None and row.attempts < row.was_attempts:
        return "interrupted" if "interruption" in (row.detail or {}) else "deferred"
    return "returned" if row.settled_token == row.was_token else "swept"


def is_grant(row: Row) -> bool:
    """A lease begins: of a message that waited, or (which must not be) of one that was leased."""
    return (
        row.event == "changed"
        and row.status == LEASED
        and (row.was_status != LEASED or (row.token != row.was_token and row.attempts != row.was_attempts))
    )


def transactions(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows of one commit after the other."""
    return (list(group) for _, group in groupby(rows, key=lambda row: (row.committed, row.xid)))


def short(token: str | None) -> str:
    return token[:8] if token else "?"
