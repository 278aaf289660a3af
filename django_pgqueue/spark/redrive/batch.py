"""Redrive some thousand dead letters in one transaction, and separate the letters that are refused."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

# The most reasons that are kept; a broken payload is a reason of its own for each letter.
MOST_REASONS = 10


@dataclass(slots=True)
class Tally:
    """The results of a redrive, in letters.

    ``selected`` is the sum of the others. ``already``: redriven before; ``gone``: they do not exist any more;
    ``refused``: by their channel, or because their new payload is no JSON. ``reasons``: how many letters each reason
    refused.
    """

    selected: int = 0
    redriven: int = 0
    already: int = 0
    gone: int = 0
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str, letters: int) -> None:
        """Count letters as refused. No more than MOST_REASONS reasons are listed; the others are only counted."""
        self.refused += letters
        if reason in self.reasons or len(self.reasons) < MOST_REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + letters

    def add(self, other: Tally) -> None:
        """Add the counts of another partition."""
        self.selected += other.selected
        self.redriven += other.redriven
        self.already += other.already
        self.gone += other.gone
        listed = sum(other.reasons.values())
        for reason, letters in other.reasons.items():
            self.refuse(reason, letters)
        self.refused += other.refused - listed


REDRIVE = "SELECT old_id, refusal FROM pgqueue_redrive(%s::bigint[], %s::text, NULL, %s::jsonb[])"
STATES = "SELECT id, redriven_at FROM pgqueue_dead_letter WHERE id = ANY (%s::bigint[])"
CHANNELS = "SELECT id, queue, channel FROM pgqueue_dead_letter WHERE id = ANY (%s::bigint[])"
HELD = "another session holds it"
# Seconds between attempts at letters that another session holds; it may be this task, run twice by Spark.
WAITS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 0.0)


class Letter(NamedTuple):
    """A dead letter to redrive. ``payload``: JSON text that replaces the old payload; None keeps it."""

    id: int
    payload: str | None = None


def redrive_batch(
    connection: psycopg.Connection[Any], letters: Sequence[Letter], channel: str | None, tried_since: datetime | None
) -> Tally:
    """Redrive the letters, each once. Returns the counts.

    ``tried_since``: None, or the time by the clock of the database since which an earlier try of this task may have
    redriven them: a letter that was redriven since then counts as redriven.
    """
    tally = Tally(selected=len(letters))
    left = list(letters)
    for wait in WAITS_SECONDS:
        redriven, accepted = _accepted(connection, left, channel, tally)
        tally.redriven += len(redriven)
        held = _explain(connection, accepted - redriven, tried_since, tally)
        left = [letter for letter in left if letter.id in held]
        if not left:
            return tally
        time.sleep(wait)
    tally.refuse(HELD, len(left))
    return tally


def _accepted(
    connection: psycopg.Connection[Any], letters: Sequence[Letter], channel: str | None, tally: Tally
) -> tuple[set[int], set[int]]:
    """Redrive the letters. Returns the ids that were redriven now, and the ids that were not refused."""
    # One bad letter, or one full channel, must not stop the others.
    try:
        redriven, refusal = _call(connection, letters, channel)
        if not refusal:
            return redriven, {letter.id for letter in letters}
        parts = _by_channel(connection, letters)
    except psycopg.DataError as error:
        refusal = _reason_of(error)
        parts = _good_payloads(connection, letters, tally)
    if len(parts) == 1 and len(parts[0]) == len(letters):
        tally.refuse(refusal, len(letters))
        return set(), set()
    done: set[int] = set()
    kept: set[int] = set()
    for part in parts:
        now, accepted = _accepted(connection, part, channel, tally)
        done |= now
        kept |= accepted
    return done, kept


def _call(connection: psycopg.Connection[Any], letters: Sequence[Letter], channel: str | None) -> tuple[set[int], str]:
    """Redrive the letters, all or none. Returns their ids and "", or no ids and the reason of the refusal."""
    payloads = [letter.payload for letter in letters]
    given = payloads if any(payload is not None for payload in payloads) else None
    with connection.transaction():
        rows = connection.execute(REDRIVE, [[letter.id for letter in letters], channel, given]).fetchall()
    refusal = rows[0][1] if rows else None
    return (set(), refusal["message"]) if refusal else ({key for key, _ in rows}, "")


def _by_channel(connection: psycopg.Connection[Any], letters: Sequence[Letter]) -> list[list[Letter]]:
    places = {key: place for key, *place in connection.execute(CHANNELS, [[letter.id for letter in letters]])}
    groups: defaultdict[tuple[str, ...], list[Letter]] = defaultdict(list)
    for letter in letters:
        groups[tuple(places.get(letter.id, ()))].append(letter)
    return [groups[place] for place in sorted(groups)]


def _good_payloads(connection: psycopg.Connection[Any], letters: Sequence[Letter], tally: Tally) -> list[list[Letter]]:
    good = []
    for letter in letters:
        try:
            with connection.transaction():
                connection.execute("SELECT %s::jsonb", [letter.payload])
            good.append(letter)
        except psycopg.DataError as error:
            tally.refuse(f"dead letter {letter.id} has no valid payload: {_reason_of(error)}", 1)
    return [good] if good else []


def _explain(
    connection: psycopg.Connection[Any], ids: set[int], tried_since: datetime | None, tally: Tally
) -> set[int]:
    """Count the accepted letters that were not redriven now. Returns the letters that another session holds."""
    if not ids:
        return set()
    states: dict[int, datetime | None] = dict(connection.execute(STATES, [list(ids)]).fetchall())
    held = {key for key, redriven_at in states.items() if redriven_at is None}
    ours = {key for key, at in states.items() if at is not None and tried_since is not None and at >= tried_since}
    tally.gone += len(ids) - len(states)
    tally.redriven += len(ours)
    tally.already += len(states) - len(held) - len(ours)
    return held


def _reason_of(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error)).split())
