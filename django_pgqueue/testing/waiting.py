"""Return the messages that a test has enqueued, and make assertions about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from django_pgqueue.handlers import name_of
from django_pgqueue.lifecycle.sealing import open_row
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.sql.call import alias
from django_pgqueue.testing.single import as_stored

SHOWN_MESSAGES = 10
SHOWN_CHARACTERS = 200


def enqueued(
    handler: str | Callable[..., Any] | None = None,
    *,
    queue: str | None = None,
    channel: str | None = None,
    using: str | None = None,
) -> list[Message]:
    """Return the messages that wait, ready or scheduled, in the order in which they were enqueued.

    ``handler``, ``queue``, ``channel``: only those. ``using``: database alias; default: the queue's.
    ``message.channel`` is loaded, and the payload is decoded. Handled messages are in the archive or the dead letters.
    """
    rows = Message.objects.using(alias(using)).select_related("channel").order_by("id")
    given = {"handler": name_of(handler) if handler else None, "channel__queue": queue, "channel__name": channel}
    found = rows.filter(**{name: value for name, value in given.items() if value is not None})
    return [open_row(row, rows.db) for row in found]


def assert_enqueued(
    handler: str | Callable[..., Any],
    payload: Any = ...,
    *,
    exact: bool = False,
    channel: str | None = None,
    queue: str | None = None,
    headers: Mapping[str, Any] | None = None,
    priority: int | None = None,
    dequeue_at: datetime | None = None,
    dedupe_key: str | None = None,
    count: int | None = None,
    using: str | None = None,
) -> list[Message]:
    """Fail unless a matching message waits, or exactly ``count`` of them. Returns the matching ones.

    ``payload``: its keys and values must be in the message's payload, at any depth; with ``exact`` both must be equal.
    ``headers``: as ``payload``. Arguments that are not given match anything. The error lists the messages that wait,
    the most similar first.
    """
    __tracebackhide__ = True
    wanted = ExpectedMessage(
        name_of(handler), payload, exact, channel, queue, headers, priority, dequeue_at, dedupe_key
    )  # fmt: skip
    found = enqueued(using=using)
    matching = [message for message in found if not wanted.differences(message)]
    if (len(matching) != count) if count is not None else not matching:
        number = "no message waits" if not matching else f"{len(matching)} messages wait, not {count},"
        raise AssertionError(f"{number} for {wanted}.{there(wanted, found, using)}")
    return matching


def assert_not_enqueued(
    handler: str | Callable[..., Any] | None = None, payload: Any = ..., *, using: str | None = None, **given: Any
) -> None:
    """Fail if a matching message waits; without arguments, if any message waits.

    The arguments are those of :func:`assert_enqueued`.
    """
    __tracebackhide__ = True
    wanted = ExpectedMessage(name_of(handler) if handler else None, payload, **given)
    matching = [message for message in enqueued(using=using) if not wanted.differences(message)]
    if matching:
        raise AssertionError(f"for {wanted}, there should be nothing.{list_messages(wanted, matching)}")


@dataclass(frozen=True, slots=True)
class ExpectedMessage:
    """Describe the messages that an assertion looks for."""

    handler: str | None = None
    payload: Any = ...
    exact: bool = False
    channel: str | None = None
    queue: str | None = None
    headers: Mapping[str, Any] | None = None
    priority: int | None = None
    dequeue_at: datetime | None = None
    dedupe_key: str | None = None

    def differences(self, message: Message) -> list[str]:
        """Return why the message does not match, a line each; the handler comes first."""
        plain = [
            ("handler", self.handler, message.handler),
            ("channel", self.channel, message.channel.name),
            ("queue", self.queue, message.channel.queue),
            ("priority", self.priority, message.priority),
            ("dequeue_at", self.dequeue_at, message.dequeue_at),
            ("dedupe_key", self.dedupe_key, message.dedupe_key),
        ]
        found = [
            f"{name} is {clipped_repr(is_)}" for name, wanted, is_ in plain if wanted is not None and wanted != is_
        ]
        if self.payload is not ...:
            found += differ(as_stored(self.payload, "payload"), message.payload, "payload", exact=self.exact)
        if self.headers is not None:
            found += differ(as_stored(self.headers, "headers"), message.headers or {}, "headers", exact=self.exact)
        return found

    def __str__(self) -> str:
        parts = [f"{name} {clipped_repr(value)}" for name, value in self._plain() if value is not None]
        if self.payload is not ...:
            parts.insert(0, f"payload {'=' if self.exact or not isinstance(self.payload, dict) else '⊇'} "
                           f"{clipped_repr(self.payload)}")  # fmt: skip
        return (
            " with ".join([self.handler or "any handler", ", ".join(parts)]) if parts else self.handler or "any handler"
        )

    def _plain(self) -> list[tuple[str, Any]]:
        names = ("channel", "queue", "headers", "priority", "dequeue_at", "dedupe_key")
        return [(name, getattr(self, name)) for name in names]


def differ(wanted: Any, found: Any, place: str, *, exact: bool) -> Iterator[str]:
    """Yield where ``found`` differs from ``wanted``, with the path of each place."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            inner = f"{place}[{json.dumps(key, ensure_ascii=False)}]"
            if key in found:
                yield from differ(value, found[key], inner, exact=exact)
            else:
                yield f"{inner} is missing"
        if exact:
            yield from (
                f"{place} has {json.dumps(key, ensure_ascii=False)} too" for key in found.keys() - wanted.keys()
            )
    elif wanted != found or isinstance(wanted, bool) != isinstance(found, bool):
        yield f"{place} is {clipped_repr(found)}"


def there(wanted: ExpectedMessage, found: list[Message], using: str | None) -> str:
    """Return the messages that exist instead, as text."""
    text = list_messages(wanted, found) if found else "\nNothing waits."
    if settled := handled(wanted.handler, using):
        text += f"\nHandled already: {', '.join(settled)}."
    return text


def list_messages(wanted: ExpectedMessage, found: list[Message]) -> str:
    """Return the text of a failed assertion: the messages that wait, the most similar first, and their differences."""
    compared = [(wanted.differences(message), message) for message in found]
    # Another handler is the least like it, however little else differs.
    compared.sort(key=lambda pair: (pair[1].handler != wanted.handler, len(pair[0])))
    lines = [f"\n{len(found)} {'waits' if len(found) == 1 else 'wait'}:"]
    for differences, message in compared[:SHOWN_MESSAGES]:
        lines.append(f"  {line(message)}")
        if message.handler == wanted.handler:
            lines += [f"      {difference}" for difference in differences]
    if len(compared) > SHOWN_MESSAGES:
        lines.append(f"  … and {len(compared) - SHOWN_MESSAGES} more")
    return "\n".join(lines)


def line(message: Message) -> str:
    """Return a message in one line."""
    when = f"at {message.dequeue_at.isoformat()}" if message.status == Message.Status.SCHEDULED else ""
    place = f"{message.channel.queue}/{message.channel.name}"
    parts = [
        f"#{message.pk} {message.handler} {clipped_repr(message.payload)} on {place}",
        f"{message.get_status_display()} {when}".strip(),
    ]
    if message.priority:
        parts.append(f"priority {message.priority}")
    if message.dedupe_key:
        parts.append(f"dedupe_key {clipped_repr(message.dedupe_key)}")
    if message.headers:
        parts.append(f"headers {clipped_repr(message.headers)}")
    return ", ".join(parts)


def handled(handler: str | None, using: str | None) -> list[str]:
    """Return the messages of a handler that have ended, the newest first, with their outcome: a test may have drained
    them.
    """
    done = ArchivedMessage.objects.using(alias(using)).filter(handler=handler).order_by("-id")
    dead = DeadLetter.objects.using(alias(using)).filter(handler=handler).order_by("-id")
    return [
        *(f"#{number} ({outcome})" for number, outcome in done.values_list("id", "outcome")[:SHOWN_MESSAGES]),
        *(f"#{number} (dead letter: {reason})" for number, reason in dead.values_list("id", "reason")[:SHOWN_MESSAGES]),
    ]


def clipped_repr(value: Any) -> str:
    """Return a value as JSON of SHOWN_CHARACTERS characters at most."""
    text = value.isoformat() if isinstance(value, datetime) else json.dumps(
        value, cls=DjangoJSONEncoder, ensure_ascii=False
    )  # fmt: skip
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
