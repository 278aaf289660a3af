"""Define what the HTTP door does. Each operation touches only messages of the channel of its key: all others, it
answers, do not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.utils import timezone

from django_pgqueue import cancel, channel_pause, channel_resume, enqueue, redrive
from django_pgqueue.flow import id_of_token, progress_of, progress_token
from django_pgqueue.http.models import Key
from django_pgqueue.lifecycle.enqueue import FLOW
from django_pgqueue.lifecycle.sealing import open_row
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.sql.call import alias

Answer = tuple[int, dict[str, Any]]
TEXT, REASON = {"type": "string"}, {"type": "string", "maxLength": 500}
PRIORITY = {"type": "integer", "minimum": -32_767, "maximum": 32_767}
SECONDS = {"type": "number", "minimum": 0, "maximum": 10**9, "description": "Seconds until it is due."}
MINUTES = {"type": "integer", "minimum": 1, "maximum": 525_600, "description": "After them it is resumed."}
SEEN = ("id", "handler", "attempts", "max_attempts", "created_at")


class Refusal(Exception):
    """Answer a request with an error: its status in HTTP, a word for programs, and a sentence."""


OPERATIONS: list[Operation] = []


@dataclass(slots=True)
class Operation:
    """Register the function that it decorates as an operation. It takes the key, the fields given, and what the path
    holds. ``verb``: what the key must allow; None: it takes none. ``fields``: the JSON schema of each."""

    method: str
    path: str
    verb: str | None
    answers: Mapping[int, str]
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    run: Callable[..., Answer] = field(init=False)

    def __call__(self, run: Callable[..., Answer]) -> Callable[..., Answer]:
        self.run = run
        OPERATIONS.append(self)
        return run


ENQUEUED = {201: "It is enqueued.", 200: "A duplicate, or dropped: see outcome."}
MESSAGE: dict[str, Any] = {"handler": TEXT, "payload": {}, "delay": SECONDS, "priority": PRIORITY}
MESSAGE |= {"dedupe_key": TEXT, "order_key": TEXT}


@Operation("POST", "messages", "enqueue", ENQUEUED, MESSAGE, ("handler",))
def enqueue_message(key: Key, given: dict[str, Any]) -> Answer:
    """Enqueue a message in the channel of the key."""
    handler, delay = given.pop("handler"), given.pop("delay", None)
    if handler not in key.handlers.splitlines():
        raise Refusal(403, "handler_not_allowed", "The key does not allow this handler.")
    given["delay"] = None if delay is None else timedelta(seconds=delay)
    made = enqueue(handler, given.pop("payload", {}), queue=key.queue, channel=key.channel, **given)
    answer: dict[str, Any] = {"id": made.id, "outcome": made.outcome}
    if made.id is not None and apps.is_installed(FLOW):
        answer["progress_token"] = progress_token(made.id)
    return 201 if made.created else 200, answer


@Operation("GET", "messages/<int:pk>", "status", {200: "Where it is."})
def show_message(key: Key, given: dict[str, Any], pk: int) -> Answer:
    """Say where a message is, and how far."""
    found = find(key, pk)
    answer: dict[str, Any] = {"state": state_of(found), **{name: getattr(found, name) for name in SEEN}}
    match found:
        case Message():
            answer["due_at"] = found.dequeue_at
        case DeadLetter():
            answer |= {"ended_at": found.dead_at, "reason": found.reason, "redriven_to": found.redriven_to}
        case _:
            answer["ended_at"] = found.archived_at
    return 200, answer | ({"progress": reported(pk)} if apps.is_installed(FLOW) else {})


@Operation("GET", "messages/<int:pk>/result", "result", {200: "It has ended.", 202: "It has not ended: ask again."})
def show_result(key: Key, given: dict[str, Any], pk: int) -> Answer:
    """Read what the handler has returned: null, unless the message was completed with a result."""
    found = find(key, pk, "result")
    answer = {"id": pk, "state": state_of(found)}
    if isinstance(found, Message):
        return 202, answer
    result = open_row(found, alias(None)).result if isinstance(found, ArchivedMessage) else None
    return 200, {**answer, "result": result}


@Operation("POST", "messages/<int:pk>/cancel", "cancel", {200: "cancelled, requested or settled."}, {"reason": REASON})
def cancel_message(key: Key, given: dict[str, Any], pk: int) -> Answer:
    """Cancel a message. One that runs is asked to stop."""
    find(key, pk)
    return 200, {"id": pk, "outcome": cancel([pk], **given)[pk]}


@Operation("POST", "messages/<int:pk>/redrive", "redrive", {201: "The id of the new message."})
def redrive_message(key: Key, given: dict[str, Any], pk: int) -> Answer:
    """Enqueue a dead letter again, as a new message with all its attempts."""
    if not isinstance(find(key, pk), DeadLetter) or not (made := redrive(pk)):
        raise Refusal(409, "not_dead", "The message is no dead letter, or was redriven before.")
    return 201, {"id": made[pk]}


@Operation("POST", "channel/pause", "pause", {200: "It is paused."}, {"reason": REASON, "minutes": MINUTES})
def pause_channel(key: Key, given: dict[str, Any]) -> Answer:
    """Stop the deliveries of the channel. Enqueue goes on."""
    until = timezone.now() + timedelta(minutes=given["minutes"]) if "minutes" in given else None
    channel_pause(queue=key.queue, channel=key.channel, reason=given.get("reason", ""), until=until)
    return 200, {"paused": True, "until": until}


@Operation("POST", "channel/resume", "pause", {200: "It is not paused."})
def resume_channel(key: Key, given: dict[str, Any]) -> Answer:
    """End the pause of the channel."""
    channel_resume(queue=key.queue, channel=key.channel)
    return 200, {"paused": False}


if apps.is_installed(FLOW):

    @Operation("GET", "progress/<str:token>", None, {200: "How far it is."})
    def show_progress(key: None, given: dict[str, Any], token: str) -> Answer:
        """Say how far a message is, to a browser that has its signed token and no key."""
        return 200, reported(id_of_token(token))


def reported(pk: int) -> dict[str, Any]:
    """Return how far a message is."""
    found = progress_of(pk)
    return asdict(found) | {"part": found.part}


def find(key: Key, pk: int, *more: str) -> Message | ArchivedMessage | DeadLetter:
    """Return the message, if it is in the channel of the key; else raise Refusal. ``more``: columns of the archive."""
    for model, queue, channel, columns in (
        (Message, "channel__queue", "channel__name", ("status", "dequeue_at")),
        (DeadLetter, "queue", "channel", ("reason", "dead_at", "redriven_to")),
        (ArchivedMessage, "queue", "channel", ("outcome", "archived_at", "queue", "channel", *more)),
    ):
        rows: Any = model._base_manager.using(alias(None)).filter(**{"pk": pk, queue: key.queue, channel: key.channel})
        found: Message | ArchivedMessage | DeadLetter | None = rows.only(*SEEN, *columns).first()
        if found:
            return found
    raise Refusal(404, "not_found", "The channel of the key has no such message.")


def state_of(found: Message | ArchivedMessage | DeadLetter) -> str:
    """Return the state of a message as one word."""
    if isinstance(found, Message):
        return Message.Status(found.status).name.lower()
    return "dead" if isinstance(found, DeadLetter) else found.outcome
