"""Map outcomes to the verbs that write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from django_pgqueue import handlers
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.settle import complete, dead_letter, defer, defer_unknown, retry
from django_pgqueue.outcomes import KEEP, Archive, Cancelled, Complete, Defer, Reject, Retry
from django_pgqueue.worker.executor import COMPLETED, Execution, HandlerMissing


def settlement_batches(executions: Iterable[Execution]) -> list[list[Execution]]:
    """Group the executions that one call of a verb can settle.

    A group is in the order of ids, which is the lock order, and has each message once.
    """
    found: dict[tuple[Any, ...], list[Execution]] = {}
    seen: dict[int, int] = {}
    completed: dict[str, tuple[str, ...]] = {}
    for execution in executions:
        delivery = execution.delivery
        if execution.outcome is COMPLETED:
            # Nearly all outcomes are this one: its key depends on the handler alone.
            key = completed.get(delivery.handler) or completed.setdefault(delivery.handler, batch_key(execution))
        else:
            key = batch_key(execution)
        # A message may be here twice: a handler that lost its lease may end together with the next delivery.
        again = seen.get(delivery.id, 0)
        seen[delivery.id] = again + 1
        found.setdefault((key, again), []).append(execution)
    return [sorted(batch, key=lambda execution: execution.delivery.id) for batch in found.values()]


def batch_key(execution: Execution) -> tuple[str, ...]:
    """Return the key of a group: the verb, and the arguments that all messages of one call share."""
    match execution.outcome:
        case Complete():
            return ("complete", str(archive_of(execution)))
        case Retry():
            return ("retry", execution.reason)
        case HandlerMissing():
            return ("defer_unknown",)
        case Defer(until, delay, state, count_attempt):
            return ("defer", repr(until), repr(delay), stored_text(state), str(count_attempt))
        case Reject(reason, details):
            return ("dead_letter", reason, stored_text(details))
        case Cancelled():
            return ("cancelled", str(archive_of(execution)))
        case other:
            assert_never(other)


def stored_text(value: Any) -> str:
    """Return a text that is the same for values that are stored alike: KEEP, or the JSON.

    A ``repr`` may leave out what is stored, such as a field of a dataclass with ``repr=False``, or may raise. A value
    that cannot be stored gets a text of its own; the settlement of its message reports it.
    """
    if value is KEEP:
        return "KEEP"
    try:
        return to_json(value, "value") or ""
    except Exception:
        return f"not JSON: {id(value)}"


def archive_of(execution: Execution) -> Archive | None:
    """Return the archive setting of the outcome, or else of the handler; None: that of its channel or queue applies."""
    given: Archive | None = getattr(execution.outcome, "archive", None)
    known = handlers.find(execution.delivery.handler)
    return given or (known.archive if known else None)


def settle_batch(batch: list[Execution], *, skip_lost: bool, using: str) -> dict[int, str]:
    """Write the outcomes of one group of :func:`settlement_batches`. Returns the event of each message by its id.

    The events are the keys of ``ledger.SIGNALS``. ``skip_lost``: leave messages out whose lease is lost; without it,
    LeaseLost is raised for them. ``using``: database alias. Raises PartitionMissing, and InvalidMessage for an outcome
    that cannot be stored.
    """
    deliveries = [execution.delivery for execution in batch]
    ran = [execution.seconds or None for execution in batch]
    match batch[0].outcome:
        case Complete():
            results = [execution.outcome.result for execution in batch]  # type: ignore[union-attr]  # of one kind
            given = results if any(result is not None for result in results) else None
            archive = archive_of(batch[0])
            done = complete(
                deliveries, results=given, skip_lost=skip_lost, archive=archive, ran_seconds=ran, using=using
            )
            return dict.fromkeys(done, "completed")
        case Retry():
            errors = [execution.error or {} for execution in batch]
            delays = [execution.outcome.after for execution in batch]  # type: ignore[union-attr]  # of one kind
            given = delays if any(delay is not None for delay in delays) else None
            states = [execution.outcome.state for execution in batch]  # type: ignore[union-attr]  # of one kind
            saved = states if any(state is not KEEP for state in states) else None
            return dict(
                retry(
                    deliveries,
                    errors=errors,
                    delays=given,
                    states=saved,
                    reason=batch[0].reason,
                    skip_lost=skip_lost,
                    ran_seconds=ran,
                    using=using,
                )
            )
        case HandlerMissing():
            errors = [execution.error or {} for execution in batch]
            return dict(defer_unknown(deliveries, errors=errors, skip_lost=skip_lost, using=using))
        case Defer(until, delay, state, count_attempt):
            return dict(
                defer(
                    deliveries,
                    until=until,
                    delay=delay,
                    state=state,
                    count_attempt=count_attempt,
                    skip_lost=skip_lost,
                    using=using,
                )
            )
        case Reject(reason, details):
            dead = dead_letter(
                deliveries, reason=reason, details=details, skip_lost=skip_lost, ran_seconds=ran, using=using
            )
            return dict.fromkeys(dead, "dead_lettered")
        case Cancelled():
            reasons = [execution.outcome.reason for execution in batch]  # type: ignore[union-attr]  # of one kind
            given = [{"reason": reason} if reason else None for reason in reasons] if any(reasons) else None
            archive = archive_of(batch[0])
            ended = complete(
                deliveries,
                results=given,
                cancelled=True,
                skip_lost=skip_lost,
                archive=archive,
                ran_seconds=ran,
                using=using,
            )
            return dict.fromkeys(ended, "cancelled")
        case other:
            assert_never(other)
