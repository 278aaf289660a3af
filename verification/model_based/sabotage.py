"""The model is checked: defects that are put into the queue, which it must notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from verification.chaos.sabotage.defects import Defect

from .key_machine import KeyMachine
from .limit_machine import LimitMachine
from .machine import QueueMachine
from .operators import OperatorMachine
from .ordered_machine import OrderedMachine
from .sql import Queue

# The first example is enough here: it is not shortened.
HUNT = settings(
    stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck), database=None,
    derandomize=True, phases=[Phase.generate],
)  # fmt: skip
WAITING = "m.status IN (1, 3)"
ANY = "m.status IN (1, 2, 3)"
LOCK_OF_KEY = "pg_try_advisory_xact_lock(hashtextextended(p_key, p_channel_id))"
OPERATORS = (
    Defect("a rescheduled message is not announced", "reschedule", "PERFORM pgqueue_announce(v_moved)", "PERFORM 1"),
    Defect("a reschedule moves leased messages", "reschedule", WAITING, ANY),
    Defect("a released lease counts as settled", "lease_release", "p_swept => true", "p_swept => false"),
    Defect(
        "a discarded message keeps its token", "discard",
        "= gen_random_uuid()", "= coalesce(m.lease_token, gen_random_uuid())",
    ),
    Defect("redriven letters are deleted", "delete_dead", " AND d.redriven_at IS NULL", ""),
    Defect("an edit changes leased messages", "edit", WAITING, ANY),
    Defect("a queue is purged with its leased messages", "lock_unleased", "m.status = 1", "m.status IN (1, 2)"),
)  # fmt: skip
"""Defects in the calls of operators, who are not in the runs of `verification.chaos`."""
BROUGHT_BACK = (
    Defect("expired leases wait for a sweep", "bring_back", "IF v_look.expired THEN", "IF false THEN"),
    Defect("due messages wait for a tick", "bring_back", "v_look.scheduled OR v_count > 0", "false"),
    Defect("an idle dequeue does not see expired leases", "dequeue", "n.expired OR ", ""),
    Defect("an idle dequeue does not see due messages", "dequeue", " OR n.scheduled", ""),
    Defect("messages that came back exceed the limit of the call", "dequeue_many", "p_limit - v_count);", "p_limit);"),
)
"""Defects of a dequeue that brings back: the runs of `verification.chaos` have a sweep as well."""
LONE = (
    Defect("a lone arrival leads to more messages than one", "receive", "HAVING count(*) = 1", "HAVING count(*) > 0"),
    Defect("a lone arrival is not the only one", "receive", "o.ctid <> a.place", "false"),
    Defect("limits are not looked at for a lone message", "receive", " AND NOT pgqueue_is_limited(c)", ""),
    Defect(
        "an arrival goes without its lone message", "receive", "IF FOUND THEN\n            DELETE",
        "IF v_arrival IS NOT NULL THEN\n            DELETE",
    ),
)  # fmt: skip
"""Defects of the way that a lone message takes: the lines of `verification.chaos` are rarely empty."""
REFUSALS = (
    Defect(
        "a full channel is found by the trigger", "enqueue",
        "        IF outcome IS NOT NULL THEN\n            RETURN;\n        ELSIF dropped_ids",
        "        IF outcome = 'dropped' THEN\n            RETURN;\n        END IF;\n        outcome := NULL;\n"
        "        IF dropped_ids",
    ),
    Defect(
        "a missing channel is raised", "enqueue",
        "refusal := v_channel.refusal", "PERFORM pgqueue_raise(v_channel.refusal)",
    ),
    Defect(
        "a redrive marks the letters before it refuses", "redrive", "    IF v_refusal IS NOT NULL THEN\n",
        "    UPDATE pgqueue_dead_letter AS d SET redriven_at = v_now WHERE d.id = ANY (v_letters.ids)"
        " AND v_refusal IS NOT NULL;\n    IF v_refusal IS NOT NULL THEN\n",
    ),
)  # fmt: skip
"""Defects of refusals, which the actors of `verification.chaos` turn into errors."""
FULL = (
    Defect(
        "the newest leaves a full channel", "choose_dropped",
        "ORDER BY -m.priority, m.dequeue_at, m.id\n                    LIMIT v_looked",
        "ORDER BY m.dequeue_at DESC, m.id DESC\n                    LIMIT v_looked",
    ),
    Defect(
        "the message that is due last leaves first", "choose_dropped",
        "                ORDER BY dequeue_at, id\n", "                ORDER BY dequeue_at DESC, id\n",
    ),
    Defect("a message replaces one", "choose_dropped", "THEN p_max_size - p_room ELSE", "THEN v_missing ELSE"),
)  # fmt: skip
"""Defects of channels that make room."""
ARCHIVE = (
    Defect("complete archives all for every channel", "archive", "p_archive, c.archive,", "p_archive,"),
    Defect("one message is archived in full for every channel", "complete", "c.archive IS NULL\n", "true\n"),
    Defect(
        "a purge keeps the payloads of every channel", "archive",
        "CASE WHEN n.archive = 'full' THEN n.payload END", "n.payload",
    ),
)  # fmt: skip
"""Defects of partial archives: the channels of `verification.chaos` archive everything."""
LIMITS = (
    Defect(
        "a paused shared limit has places", "limit_room", "l.paused_at IS NOT NULL THEN 0", "false THEN 0"
    ),
    Defect(
        "tokens are not taken", "lease_within", "v_rooms[v_at].tokens - v_message.cost", "v_rooms[v_at].tokens",
        also=(("take_alike", "v_room.tokens - v_all.cost", "v_room.tokens"),),
    ),
    Defect(
        "a bucket holds more than the burst", "limit_room", "least(\n                l.release_burst,\n", "(\n",
    ),
    Defect("cost in flight is not counted", "limit_room", "l.max_cost - o.cost", "l.max_cost"),
    Defect("a correction of a cost is lost", "spend", "IF v_more <> 0 THEN", "IF false THEN"),
    Defect(
        "a correction of a cost is taken twice", "take_places", "WHERE s.ctid = ANY", "WHERE false AND s.ctid = ANY"
    ),
    Defect(
        "the limits of handlers are not looked up", "lease_within", "WHERE h.handler = m.handler", "WHERE false",
        also=(("take_alike", "WHERE h.handler = m.handler", "WHERE false"),),
    ),
    Defect(
        "a message that waits for a shared limit is not promoted", "promote_waiting",
        "cardinality(v_ids) >= p_most", "true",
    ),
    Defect(
        "a message of a paused queue keeps the place", "promised", "WHERE pgqueue_queue_is_open(q.queue)", "WHERE true",
        also=(
            ("promote_within", "NOT pgqueue_queue_is_open(p_queue)", "false"),
            ("promote_within", "NOT pgqueue_queue_is_open(v_turn.queue)", "false"),
        ),
    ),
    Defect(
        "leases of a queue do not count", "queue_allowance",
        "v_queue.max_concurrency - cardinality(v_room.ids)", "v_queue.max_concurrency",
    ),
    Defect("the rate of a queue is not charged", "list_leases", " + pgqueue_token_time(p_room.step, p_cost)", ""),
    Defect("the rates of queues do not count cost", "pay", "cost := cost + v_message.cost", "cost := cost + 1"),
    Defect(
        "a correction of a cost does not reach the rate of the queue", "queue_allowance",
        "coalesce(pgqueue_token_time(v_room.step, v_spent), '0')", "interval '0'",
    ),
    Defect("max_share is not looked at", "take_by_share", "least(p_room.most, CASE", "least(NULL::integer, CASE"),
    Defect(
        "shares are not looked at", "take_guarded", "        v_taken := pgqueue_take_by_share(",
        "        v_may.by_share := false;\n        v_taken := pgqueue_take_by_share(",
    ),
    Defect(
        "a dead letter does not pause its ordered channel", "dead_letter",
        "PERFORM pgqueue_pause_at_dead(v_stopped, v_stopping)", "PERFORM 1",
    ),
)  # fmt: skip
"""Defects of limits, shares and order, which the machine of limits must notice."""
KEYS = (
    Defect(
        "a message that was delivered does not hold its order key", "first_of_key",
        "coalesce(m.leased_at, m.last_leased_at), ", "",
    ),
    Defect(
        "two dequeues look at an order key", "take_keyed",
        "pg_try_advisory_xact_lock(hashtextextended(m.order_key, m.channel_id))", "true",
        also=(("take_key", f"NOT {LOCK_OF_KEY}", "false"),),
    ),
    Defect(
        "a settlement does not hold its order keys", "release_keys",
        "NOT pg_try_advisory_xact_lock(hashtextextended(k.order_key, k.channel_id))", "false",
        also=(("release_key", LOCK_OF_KEY, "true"),),
    ),
    Defect(
        "an order key whose next message is held is not noted", "release_keys", "WHERE u.id <> ALL (v_held)",
        "WHERE false",
    ),
    Defect(
        "a redriven message is the last one of its order key", "redrive", "coalesce(n.order_place, n.id) END",
        "NULL::bigint END",
    ),
)  # fmt: skip
"""Defects of order keys, which the machine of two sessions with keys must notice."""
ORDERED = (
    Defect(
        "a message that waits for a limit does not hold its ordered channel", "allowance",
        " OR m.status::integer = 3 AND m.waits_for >= 0)", ")",
    ),
    Defect(
        "a promotion does not bring its ordered channel back", "promote_waiting",
        "PERFORM pgqueue_unpark_ordered(v_ids)", "PERFORM 1",
    ),
    Defect(
        "messages of an ordered channel are set aside behind the first", "take_places", " AND NOT c.ordered", ""
    ),
    Defect(
        "a message that was given back does not hold its ordered channel", "reschedule",
        "m.last_leased_at IS NOT NULL", "false",
    ),
    Defect(
        "a held message stays held when the order ends", "channel_changed", "IF v_freed <> '{}' THEN", "IF false THEN"
    ),
    Defect(
        "a redriven message has no place in its ordered channel", "redrive", "WHEN c.ordered AND", "WHEN false AND"
    ),
    Defect("a redrive does not end the pause", "redrive", "d.id = ANY (v_letters.ids)", "false"),
    Defect(
        "a dead letter that was resumed pauses its channel again", "pause_at_dead",
        " AND c.stopped_by IS DISTINCT FROM u.id", "",
    ),
    Defect(
        "an ordered channel begins with a more urgent message", "take_ordered",
        "WHERE m.id = p_current_id AND m.channel_id = p_channel_id AND m.status::integer = 1", "WHERE false",
    ),
)  # fmt: skip
"""Defects of ordered channels with limits, which their machine must notice."""
OF_THE_MODEL = (*OPERATORS, *BROUGHT_BACK, *LONE, *REFUSALS, *FULL, *ARCHIVE, *LIMITS, *KEYS, *ORDERED)
NOTICED = (
    "complete takes any token",
    "heartbeat takes any token",
    "defer takes any token",
    "retry takes any token",
    "dead_letter takes any token",
    "an attempt is not counted at the dequeue",
    "the sweep does not look at the clock",
    "the sweep is half a lease early",
    "a heartbeat extends nothing",
    "leased messages are given away again",
    "one attempt too many",
    "complete forgets the archive",
    "complete archives and does not delete",
    "complete archives twice",
    "dead_letter drops messages that were tried often",
    "a redrive may be repeated",
    "enqueue_many leaves out a message",
    "leases are not counted",
    "limits are not looked at for one message",
    "an expired lease frees its place before it is swept",
    "a paused channel goes on",
    "the rate is not charged",
    "one more than the burst",
    "departures count twice",
    "full too early",
    "promoted before it is due",
    "the newest first",
    "a lane does not go to the tail",
    "a message puts its channel before others",
    "a fresh lane stays before the others",
    "a retry does not hold its ordered channel",
    "an ordered channel does not know its last message",
    "a deferred message is not announced",
    "a promoted message is not announced",
    "a free place is not announced",
    "lanes that have messages are parked",
    "a full channel forgets the messages that it drops",
    *(defect.name for defect in OF_THE_MODEL),
)


@contextmanager
def installed(session: psycopg.Connection[Any], defect: Defect) -> Iterator[None]:
    """The queue with the defect, and then without it."""
    names = {f"pgqueue_{function}" for function in (defect.function, *(edit[0] for edit in defect.also))}
    query = "SELECT pg_get_functiondef(f::regproc) FROM unnest(%s::text[]) AS f"
    sources = session.execute(query, (list(names),)).fetchall()
    defect.install(session)
    try:
        yield
    finally:
        for (source,) in sources:
            session.execute(source)


def notice(queue: Queue, defect: Defect, examples: int = 200) -> str:
    """Return how the machine noticed the defect; empty: not at all."""
    base: type[RuleBasedStateMachine] = OperatorMachine if defect in (*OPERATORS, *FULL) else QueueMachine
    if defect in LIMITS:
        base = LimitMachine
    elif defect in ORDERED:
        base = OrderedMachine
    given: dict[str, Any] = {"queue": queue}
    with ExitStack() as opened:
        if defect in KEYS:
            base, dsn = KeyMachine, queue.session.info.dsn
            given["queues"] = queue, Queue(opened.enter_context(psycopg.connect(dsn, autocommit=True)))
        opened.enter_context(installed(queue.session, defect))
        machine: Any = type("Machine", (base,), {**given, "steps": 0})
        try:
            run_state_machine_as_test(machine, settings=settings(HUNT, max_examples=examples))
        except (AssertionError, Flaky) as error:
            return f"after {machine.steps} steps: {type(error).__name__} {error}"
        finally:
            queue.reset()
    return ""
