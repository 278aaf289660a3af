"""The queue that is tested: calls of its functions, and one look at all of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from .clock import BASE
from .enqueue import Draft
from .model import Model
from .states import SCHEDULED
from .take import Lease

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
END = """x.id, x.queue, x.channel, (x.payload ->> 'n')::int, x.priority, x.attempts, x.max_attempts, x.state,
    coalesce(jsonb_array_length(x.errors), 0), x.lease_token, us(x.leased_at), x.redriven_from"""
TABLES = f"""
SELECT jsonb_build_object(
    'channels', (SELECT coalesce(jsonb_agg(jsonb_build_array(
            c.id, c.queue, c.name, c.max_concurrency, c.max_size, c.full_policy,
            (extract(epoch FROM c.release_interval) * 1000000)::bigint, c.release_burst, c.weight, c.archive,
            c.paused_at IS NOT NULL, us(c.released_at), c.ordered) ORDER BY c.id), '[]')
        FROM pgqueue_channel AS c),
    'messages', (SELECT coalesce(jsonb_agg(jsonb_build_array(
            m.id, m.channel_id, (m.payload ->> 'n')::int, us(m.dequeue_at), m.status, m.priority, m.attempts,
            m.max_attempts, m.dedupe_key, m.state, coalesce(jsonb_array_length(m.errors), 0), m.lease_token,
            us(m.leased_at), us(m.lease_expires_at), m.settled_token, m.cancelled_at IS NOT NULL, m.redriven_from,
            us(m.held_until))
            ORDER BY m.id), '[]')
        FROM pgqueue_message AS m),
    'archive', (SELECT coalesce(jsonb_agg(jsonb_build_array({END}, x.outcome, us(x.archived_at), x.result)
            ORDER BY x.id), '[]')
        FROM pgqueue_archived_message AS x),
    'dead', (SELECT coalesce(jsonb_agg(jsonb_build_array({END}, x.reason, us(x.dead_at), x.redriven_to)
            ORDER BY x.id), '[]')
        FROM pgqueue_dead_letter AS x),
    'paused', (SELECT coalesce(jsonb_agg(jsonb_build_array(q.name) ORDER BY q.name), '[]')
        FROM pgqueue_queue AS q WHERE q.paused_at IS NOT NULL),
    'sizes', (SELECT coalesce(jsonb_agg(jsonb_build_array(s.channel_id, s.live - coalesce(
            (SELECT sum(d.messages) FROM pgqueue_departure AS d WHERE d.channel_id = s.channel_id), 0))), '[]')
        FROM pgqueue_channel_size AS s))
"""
EMPTIED = (
    "channel", "queue", "message", "archived_message", "dead_letter", "lane", "arrival", "gate", "channel_size",
    "departure", "waiter", "floor", "tally", "unarchived", "unarchived_total", "limit", "limit_handler", "place",
    "spent", "meter", "worker", "order_note",
)  # fmt: skip
# The time of a message that may have been popped since.
NEXT_AT = """SELECT us(coalesce((SELECT coalesce(m.held_until, m.dequeue_at) FROM pgqueue_message AS m WHERE m.id = %s),
    (SELECT a.dequeue_at FROM pgqueue_archived_message AS a WHERE a.id = %s)))"""
DEQUEUE = "SELECT id, channel, (payload ->> 'n')::int, attempts, token::text, us(lease_expires_at) FROM"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server's error instead of an answer."""

    code: str
    text: str


@dataclass(slots=True)
class Queue:
    """``mended``: what the server said of counts that were wrong."""

    session: psycopg.Connection[Any]
    mended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session.prepare_threshold = 1
        self.session.add_notice_handler(self.hear)

    def hear(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if "mended" in (diagnostic.message_primary or ""):
            self.mended.append(diagnostic.message_primary or "")

    def guarded(self) -> AbstractContextManager[Any]:
        """A savepoint, if a transaction is open: for calls that raise."""
        idle = self.session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return nullcontext() if idle else self.session.transaction()

    def rows(self, query: str, *parameters: Any, raises: bool = False) -> Any:
        """Return the answer of a call. A verb whose last column is ``refusal`` gets no savepoint: after a refusal the
        transaction goes on, and all that is written in it before and afterwards commits."""
        returns = "refusal FROM" in query
        try:
            with nullcontext() if returns and not raises else self.guarded():
                rows = self.session.execute(query, parameters).fetchall()
            if not returns:
                return rows
            found = next((row[-1] for row in rows if row[-1] is not None), None)
            return Refusal(found["sqlstate"], found["message"]) if found else [row[:-1] for row in rows]
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            if returns and not raises and error.sqlstate.startswith("PGQ"):
                raise AssertionError(f"raised, not returned: {error}") from error
            return Refusal(error.sqlstate, str(error))

    def one(self, query: str, *parameters: Any) -> Any:
        found = self.rows(query, *parameters)
        return found if isinstance(found, Refusal) else found[0][0] if found else None

    def tables(self) -> dict[str, list[list[Any]]]:
        return self.one(TABLES)

    def set_clock(self, now: int) -> None:
        self.one("SELECT setval('fake_clock_us', %s)", BASE + now)

    def reset(self) -> None:
        """As new: also ids, places in the line and chance begin again, so that a failure can be repeated."""
        self.session.rollback()
        # A day before, so that the partitions of all days that a test may come to are there.
        self.set_clock(-86_400_000_000)
        self.session.execute("SELECT pgqueue_make_partitions(6)")
        self.set_clock(0)
        self.session.execute("; ".join(f"DELETE FROM pgqueue_{name}" for name in EMPTIED))
        self.session.execute(
            """
            SELECT setval('pgqueue_channel_id_seq', 1, false), setval('pgqueue_limit_id_seq', 1, false),
                setval('pgqueue_message_id_seq', 1, false),
                setval('pgqueue_lane_seq', 1, false), setseed(0.5);
            INSERT INTO pgqueue_floor
                (id, ticked_at, arrival_xid, late_xids, lane_seq, parked_from, next_xid, next_lane_seq)
            VALUES (1, fake_clock(), '0', '{}', 0, '-infinity', '0', 0)
            """
        )
        self.mended.clear()

    def enqueue(self, draft: Draft, *, relative: bool, at: int) -> Any:
        """By ``delay`` or by ``dequeue_at``: ``at`` is the clock's time."""
        return self.rows(
            """SELECT id, outcome, dropped_ids, refusal FROM pgqueue_enqueue('work', %s, %s, %s, p_priority => %s,
            p_dequeue_at => %s::timestamptz, p_delay => %s, p_max_attempts => %s,
            p_backoff => %s, p_backoff_factor => %s, p_backoff_longest => %s,
            p_dedupe_key => %s)""",
            Jsonb({"n": draft.number}), draft.channel, draft.queue, draft.priority,
            None if relative or draft.due is None else moment(at + draft.due),
            span(draft.due) if relative else None, draft.max_attempts, span(draft.backoff), draft.factor,
            span(draft.longest), draft.key, raises=draft.key is not None,
        )  # fmt: skip

    def enqueue_many(self, drafts: Sequence[Draft], partial: bool = False) -> Any:
        keys = [draft.key for draft in drafts]
        return self.rows(
            f"""SELECT id, outcome, dropped_ids{"" if partial else ", refusal"} FROM pgqueue_enqueue_many(
            %s, %s, %s, %s, p_priorities => %s, p_delays => %s, p_max_attempts => %s, p_backoffs => %s,
            p_backoff_factors => %s::float8[], p_backoff_longests => %s, p_dedupe_keys => %s, p_partial => %s)""",
            ["work"] * len(drafts), [Jsonb({"n": draft.number}) for draft in drafts],
            [draft.channel for draft in drafts], [draft.queue for draft in drafts],
            [draft.priority for draft in drafts], [span(draft.due or 0) for draft in drafts],
            [draft.max_attempts for draft in drafts], [span(draft.backoff) for draft in drafts],
            [draft.factor for draft in drafts], [span(draft.longest) for draft in drafts], keys if any(keys) else None,
            partial,
        )  # fmt: skip

    def insert(self, draft: Draft, at: int) -> Any:
        found = self.rows(
            """INSERT INTO pgqueue_message
                (channel_id, handler, payload, priority, dequeue_at, max_attempts, dedupe_key)
            SELECT c.id, 'work', %s, %s, coalesce(%s::timestamptz, fake_clock()), %s, %s
            FROM pgqueue_channel AS c WHERE c.queue = %s AND c.name = %s RETURNING id""",
            Jsonb({"n": draft.number}), draft.priority, None if draft.due is None else moment(at + draft.due),
            draft.max_attempts, draft.key, draft.queue, draft.channel,
        )  # fmt: skip
        return found if isinstance(found, Refusal) else [number for (number,) in found]

    def take(self, verb: str, queue: str, limit: int, lease: int = 0) -> list[Lease] | Refusal:
        """dequeue or pop."""
        arguments = [queue, limit, *([span(lease)] if verb == "dequeue" else [])]
        found = self.rows(f"{DEQUEUE} pgqueue_{verb}({', '.join(['%s'] * len(arguments))})", *arguments)
        return found if isinstance(found, Refusal) else [Lease(*row) for row in found]

    def looked(self, model: Model) -> dict[int, str | None]:
        """Return the messages that a dequeue may bring back, with their tokens."""
        return {number: model.messages[number].token for number in [*model.due(), *model.expired()]}

    def brought_back(self, looked: dict[int, str | None]) -> tuple[frozenset[int], frozenset[int]]:
        """Those whose leases are lost, and those that are scheduled now."""
        query = "SELECT id, status, lease_token::text FROM pgqueue_message WHERE id = ANY (%s)"
        rows = {number: (status, token) for number, status, token in self.rows(query, list(looked))}
        lost = {n for n, token in looked.items() if token is not None and (n not in rows or rows[n][1] != token)}
        return frozenset(lost), frozenset(n for n, (status, _) in rows.items() if status == SCHEDULED)

    def settle(self, verb: str, pairs: Sequence[tuple[int, str]], **arguments: Any) -> Any:
        """Call a function that gets ids and tokens; arguments as it has them, without p_."""
        named = "".join(f", p_{name} => %s" for name in arguments)
        ids, tokens = [number for number, _ in pairs], [token for _, token in pairs]
        found = self.rows(f"SELECT * FROM pgqueue_{verb}(%s, %s::uuid[]{named})", ids, tokens, *arguments.values())
        return found if isinstance(found, Refusal) else sorted(row if len(row) > 1 else row[0] for row in found)


def span(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=BASE + microseconds)
