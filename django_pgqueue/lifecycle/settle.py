"""Settle leased messages: complete, retry, defer or dead-letter them, give them back, or keep them longer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import aware, checked_duration, checked_text, checked_whole
from django_pgqueue.lifecycle.binding import Unreadable, delivery_list, lease_columns, seconds_array
from django_pgqueue.lifecycle.sealing import seal, seal_errors
from django_pgqueue.outcomes import KEEP, Archive
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import duration_text, json_texts, plain_texts

COMPLETE = (
    "SELECT pgqueue_complete(%s::bigint[], %s::uuid[], string_to_array(%s::text, chr(31), '')::jsonb[], %s::boolean, "
    "%s::boolean, %s::text, string_to_array(%s::text, ',', '')::double precision[])"
)


def complete(
    deliveries: Delivery | Iterable[Delivery],
    *,
    results: Sequence[Any] | None = None,
    skip_lost: bool = False,
    cancelled: bool = False,
    archive: Archive | None = None,
    ran_seconds: Sequence[float | None] | None = None,
    using: str | None = None,
) -> set[int]:
    """Move leased messages to the archive as completed. Returns their ids.

    ``deliveries``: one delivery or several. ``results``: one JSON value a message. ``skip_lost``: leave lost leases out
    instead of raising; a message that this very lease has completed before counts as completed while the archive has
    it, so a call whose connection broke can be repeated. ``cancelled``: archive the messages as cancelled, not as
    completed.

    ``archive``: what the archive keeps of them, whatever their channel or queue says: ``full``, ``outcome`` (no
    payload, no result) or ``none``. ``ran_seconds``: how long the handler of each message ran, from which the archive
    has ``started_at``; default: unknown. ``using``: database alias; default: the queue's. In ``atomic()`` together with
    the handler's own writes, the effects happen exactly once.

    Raises LeaseLost, and then changes nothing; InvalidMessage if there is not one result, or one number of seconds, for
    each message.
    """
    settled = delivery_list(deliveries)
    if not settled:
        return set()
    if results is not None and len(results) != len(settled):
        raise InvalidMessage("complete takes one result for each message")
    ids, tokens = lease_columns(settled)
    results_json = None
    if results is not None:
        results_json = json_texts(seal(settled, [to_json(result, "result") for result in results], using))
    ran = seconds_array(ran_seconds, len(settled))
    return {row[0] for row in call(using, COMPLETE, (ids, tokens, results_json, skip_lost, cancelled, archive, ran))}


RETRY = (
    "SELECT id, outcome FROM pgqueue_retry(%s::bigint[], %s::uuid[], %s::jsonb[], "
    "string_to_array(%s::text, ',', '')::interval[], %s::text, %s::boolean, "
    "p_states => string_to_array(%s::text, chr(31), '')::jsonb[], "
    "p_ran_seconds => string_to_array(%s::text, ',', '')::double precision[], p_max_interruptions => %s::integer)"
)


def retry(
    deliveries: Delivery | Iterable[Leased],
    *,
    errors: Sequence[Mapping[str, Any]],
    delays: Sequence[timedelta | None] | None = None,
    states: Sequence[Any] | None = None,
    reason: str = "failed",
    skip_lost: bool = False,
    ran_seconds: Sequence[float | None] | None = None,
    max_interruptions: int | None = None,
    using: str | None = None,
) -> dict[int, Literal["retried", "dead_lettered", "cancelled", "completed"]]:
    """Put failed messages back under their retry policy, or into the dead letters when their attempts are used up.

    ``deliveries``: one delivery or several. ``errors``: what went wrong, one dict a message; it is kept with the
    message. ``delays``: one timedelta a message until its next delivery; None: the message's back-off. ``states``: what
    to save for the next delivery, one JSON value a message, KEEP for those that keep theirs; default: all keep theirs.
    ``reason``: the reason of the dead letter. ``skip_lost``: leave lost leases out instead of raising; a message that
    this very lease has settled before is returned with its outcome of that time. ``ran_seconds``: how long the handler
    of each message ran, from which its error has ``started_at``; default: unknown. ``max_interruptions``: a stop of the
    worker has interrupted the messages, and they have not failed: their attempt is given back, and one that was
    interrupted so many times becomes a dead letter; default: they have failed. ``using``: database alias; default: the
    queue's.

    Returns the outcome of each id: ``retried``, ``dead_lettered``, or ``cancelled`` if a cancellation was requested.
    Raises LeaseLost, and InvalidMessage for arguments that do not pair up.
    """
    failed = delivery_list(deliveries)
    if not failed:
        return {}
    columns = [column for column in (errors, delays, states) if column is not None]
    if isinstance(errors, Mapping) or any(len(column) != len(failed) for column in columns):
        raise InvalidMessage("retry takes one error for each message, and one delay and one state, if any")
    if not all(isinstance(error, Mapping) for error in errors):
        raise InvalidMessage("an error of retry is not a mapping", hint='Give {"type": …, "message": …}.')
    if not 1 <= len(checked_text(reason, "reason")) <= 200:
        raise InvalidMessage("the reason of a dead letter takes 1 to 200 characters")
    ids, tokens = lease_columns(failed)
    pauses = None if delays is None else plain_texts([checked_duration(d, "delay") for d in delays], duration_text)
    texts = [to_json(error, "error") for error in seal_errors(failed, errors, using)]
    saved = None if states is None else json_texts(seal(failed, [state_as_json(each) for each in states], using))
    ran = seconds_array(ran_seconds, len(failed))
    most = None if max_interruptions is None else checked_whole(max_interruptions, "max_interruptions", least=1)
    given = (ids, tokens, texts, pauses, checked_text(reason, "reason"), skip_lost, saved, ran, most)
    return dict(call(using, RETRY, given))


def state_as_json(state: Any) -> str | None:
    """Return the state as JSON text, or None for KEEP: NULL means that the message keeps its state."""
    return None if state is KEEP else to_json(state, "state") or "null"


DEFER = (
    "SELECT id, outcome FROM pgqueue_defer(%s::bigint[], %s::uuid[], %s::timestamptz[], %s::interval[], "
    "string_to_array(%s::text, chr(31), '')::jsonb[], %s::boolean, %s::boolean, %s::boolean)"
)


def defer(
    deliveries: Delivery | Iterable[Leased],
    *,
    until: datetime | None = None,
    delay: timedelta | None = None,
    state: Any = KEEP,
    count_attempt: bool = False,
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, Literal["deferred", "cancelled", "completed", "dead_lettered", "retried"]]:
    """Give leased messages back on purpose, to be delivered again later.

    ``deliveries``: one delivery or several. ``until``: an aware datetime, or ``delay``: a timedelta; without either,
    the message is ready at once, behind those that wait. ``state``: JSON that is saved for the next delivery; default:
    the saved state stays. ``count_attempt``: by default a deferral is progress and does not use up an attempt; with
    True it does, so ``delivery.attempt`` grows, and a message whose attempts are used up becomes a dead letter with
    reason ``deferred``. ``skip_lost``: leave lost leases out instead of raising; a message that this very lease has
    settled before is returned with its outcome of that time. ``using``: database alias; default: the queue's.

    Returns the outcome of each id: ``deferred``, ``dead_lettered``, or ``cancelled`` if a cancellation was requested.
    Raises LeaseLost and InvalidMessage.
    """
    settled = delivery_list(deliveries)
    if not settled:
        return {}
    if until is not None and delay is not None:
        raise InvalidMessage("defer takes until or delay, not both")
    ids, tokens = lease_columns(settled)
    keep = state is KEEP
    states = None if keep else json_texts(seal(settled, [to_json(state, "state")] * len(settled), using))
    times = None if until is None else [aware(until, "until")] * len(settled)
    delays = [checked_duration(delay or timedelta(0), "delay")] * len(settled) if until is None else None
    return dict(call(using, DEFER, (ids, tokens, times, delays, states, keep, skip_lost, count_attempt)))


DEFER_UNKNOWN = (
    "SELECT id, outcome FROM pgqueue_defer_unknown(%s::bigint[], %s::uuid[], %s::jsonb[], %s::interval, %s::boolean)"
)


def defer_unknown(
    deliveries: Delivery | Iterable[Leased],
    *,
    errors: Sequence[Mapping[str, Any]],
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, Literal["deferred", "dead_lettered", "cancelled", "completed", "retried"]]:
    """Give back messages whose handler is not registered here, so that a worker that has it gets them soon.

    The attempt does not count. When the setting UNKNOWN_HANDLER_GRACE has passed since the first time, a message
    becomes a dead letter with the reason ``unknown_handler``.

    ``deliveries``: one delivery or several. ``errors``: what went wrong, one dict a message with a ``type``; the first
    one is kept with the message. ``skip_lost``: leave lost leases out instead of raising, as in
    :func:`django_pgqueue.defer`. ``using``: database alias; default: the queue's.

    Returns the outcome of each id. Raises LeaseLost.
    """
    returned = delivery_list(deliveries)
    if not returned:
        return {}
    texts = [to_json(error, "error") for error in errors]
    grace = settings.UNKNOWN_HANDLER_GRACE
    return dict(call(using, DEFER_UNKNOWN, (*lease_columns(returned), texts, grace, skip_lost)))


GIVE_BACK = "SELECT id FROM pgqueue_defer(%s::bigint[], %s::uuid[], p_skip_lost => true)"


def give_back(deliveries: Delivery | Iterable[Leased], *, using: str | None = None) -> set[int]:
    """Return leased messages that were not started to their old places. Returns their ids.

    They are ready at once, for any worker, and the attempt does not count. ``deliveries``: one delivery or several.
    Lost leases are left out; a message with a requested cancellation goes to the archive. ``using``: database alias;
    default: the queue's.
    """
    returned = delivery_list(deliveries)
    return {row[0] for row in call(using, GIVE_BACK, lease_columns(returned))} if returned else set()


DEAD_LETTER = (
    "SELECT pgqueue_dead_letter(%s::bigint[], %s::uuid[], %s::text[], string_to_array(%s::text, chr(31), '')::jsonb[], "
    "%s::boolean, string_to_array(%s::text, ',', '')::double precision[])"
)
CODEC_PAUSE = timedelta(seconds=15)


def dead_letter(
    deliveries: Delivery | Iterable[Delivery],
    *,
    reason: str,
    details: Any = None,
    skip_lost: bool = False,
    ran_seconds: Sequence[float | None] | None = None,
    using: str | None = None,
) -> set[int]:
    """Move leased messages to the dead letters. Returns their ids.

    ``deliveries``: one delivery or several. ``reason``: a short word to group by, up to 200 characters. ``details``:
    JSON that is kept with each dead letter. ``skip_lost``: leave lost leases out instead of raising; a message that
    this very lease has settled before is returned. ``ran_seconds``: how long the handler of each message ran, from
    which the dead letter has ``started_at``; default: unknown. ``using``: database alias; default: the queue's.

    Raises LeaseLost, and then changes nothing; InvalidMessage for a reason that is empty or too long, or if there is
    not one number of seconds for each message.
    """
    settled = delivery_list(deliveries)
    if not settled:
        return set()
    if not 1 <= len(checked_text(reason, "reason")) <= 200:
        raise InvalidMessage("a dead letter needs a reason of 1 to 200 characters")
    ids, tokens = lease_columns(settled)
    kept = json_texts(seal(settled, [to_json(details, "details")] * len(settled), using))
    ran = seconds_array(ran_seconds, len(settled))
    return {row[0] for row in call(using, DEAD_LETTER, (ids, tokens, [reason] * len(settled), kept, skip_lost, ran))}


def settle_unreadable(unreadable: list[Unreadable], using: str | None) -> None:
    """Move messages that Python cannot read to the dead letters, because a later attempt could not read them either.

    Messages that the codec cannot decode now are deferred for CODEC_PAUSE, and use up no attempt.
    """
    if waiting := [item for item in unreadable if item.reason is None]:
        defer(waiting, delay=CODEC_PAUSE, skip_lost=True, using=using)
    dead = [item for item in unreadable if item.reason is not None]
    if dead:
        ids, tokens = lease_columns(dead)
        details = json_texts([to_json({"type": item.kind, "message": item.problem}, "details") for item in dead])
        call(using, DEAD_LETTER, (ids, tokens, [item.reason for item in dead], details, True, None))


HEARTBEAT = "SELECT id, cancelled FROM pgqueue_heartbeat(%s::bigint[], %s::uuid[], %s::interval, %s::boolean)"


def heartbeat(
    deliveries: Delivery | Iterable[Leased],
    *,
    lease: timedelta | None = None,
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, bool]:
    """Set the leases to expire ``lease`` from now, later or sooner than before.

    ``deliveries``: one delivery or several. ``lease``: a timedelta; default: the setting LEASE. ``timedelta(0)`` gives
    the messages back: they are ready at once, in their old place. The attempt counts; where the attempts are used up,
    the message becomes a dead letter with reason ``deferred``. ``skip_lost``: leave lost leases out instead of raising;
    then the call does not wait, either: a message that another transaction has locked is returned as held, and its
    lease is not extended this time. ``using``: database alias; default: the queue's.

    Returns the ids that are still held (with ``timedelta(0)``: that were given back), each with whether a cancellation
    was requested. Raises LeaseLost if a lease is lost, and InvalidMessage for a negative ``lease``.
    """
    ids, tokens = lease_columns(delivery_list(deliveries))
    if not ids:
        return {}
    lease = settings.LEASE if lease is None else checked_duration(lease, "lease")
    return dict(call(using, HEARTBEAT, (ids, tokens, lease, skip_lost)))


SPEND = "SELECT pgqueue_spend(%s::bigint, %s::uuid, %s::integer)"


def spend(delivery: Delivery, cost: int, *, using: str | None = None) -> int:
    """Correct what a leased message costs, when its handler knows it better than the enqueuer did.

    The rates of its channel, its queue and its shared limits are charged for the difference, or get it back, with the
    next lease. ``max_cost`` counts the new cost at once. A later delivery of the message has the new cost.

    ``delivery``: the message that the handler works on. ``cost``: the whole cost of this delivery, 1 or more.
    ``using``: database alias; default: the queue's.

    Returns the cost that was known before. Raises LeaseLost if the lease is lost, and InvalidMessage for a ``cost``
    that is not allowed, or a ``delivery`` that is none.
    """
    checked_whole(cost, "cost", least=1)
    [leased] = delivery_list([delivery])
    [(before,)] = call(using, SPEND, (leased.id, leased.token, cost))
    return int(before)
