"""Define the errors of the queue. Each SQLSTATE of the database has an exception here."""

from __future__ import annotations


class PgQueueError(Exception):
    """The base of all errors of the queue. ``hint``: what to do.

    ``outcome``: the word that the SQL functions return for it; empty for an error that they raise.
    """

    sqlstate: str | None = None
    outcome: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint


class MessageNotFound(PgQueueError):
    """No message has this id."""

    sqlstate = "PGQ01"
    outcome = "not_found"


class LeaseLost(PgQueueError):
    """The lease expired and was swept, or the message is settled already. Nothing was changed.

    ``ids``: the messages that the caller may not touch any more.
    """

    sqlstate = "PGQ02"

    def __init__(self, message: str, *, hint: str = "", ids: tuple[int, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.ids = ids


class ChannelNotFound(PgQueueError):
    """The queue has no channel of this name, or the queue has no channels at all."""

    sqlstate = "PGQ03"
    outcome = "not_found"


class ChannelFull(PgQueueError):
    """The channel holds ``max_size`` live messages, and its policy makes no room. Nothing was enqueued."""

    sqlstate = "PGQ04"
    outcome = "full"


class ChannelReleased(PgQueueError):
    """The channel is being drained and removed, and takes no new messages."""

    sqlstate = "PGQ05"
    outcome = "released"


class ChannelBusy(PgQueueError):
    """Another open transaction fills the same channel with a ``max_size``, or has enqueued the same dedupe key. Nothing
    was enqueued: try again later."""

    sqlstate = "PGQ06"
    outcome = "busy"


class InvalidMessage(PgQueueError, ValueError):
    """An argument has a value that no message, lease or channel may have."""

    sqlstate = "PGQ07"
    outcome = "invalid"


class PartitionMissing(PgQueueError):
    """The archive has no partition for today. Nothing was changed: make it with ``prune()`` and settle again."""

    sqlstate = "PGQ08"


class ScheduleNotFound(PgQueueError):
    """No schedule has this name."""

    sqlstate = "PGQ09"
    outcome = "not_found"


class QueueNotEmpty(PgQueueError):
    """A queue that is to be dropped holds messages: leased ones, or waiting ones that were not to be purged."""

    sqlstate = "PGQ10"
    outcome = "not_empty"


class ResultTimeout(PgQueueError, TimeoutError):
    """Messages that were waited for have not ended in time: ``ids``. They go on."""

    def __init__(self, message: str, *, hint: str = "", ids: tuple[int, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.ids = ids


class EventTimeout(PgQueueError, TimeoutError):
    """An event that a step of the handler has waited for did not come in time."""


class MessageFailed(PgQueueError):
    """A message that was waited for has ended without a result.

    ``id``: the message's. ``reason``: that of the dead letter, or ``cancelled``, ``purged`` or ``dropped``.
    ``dead_letter``: the id of the dead letter, or None.
    """

    def __init__(self, message: str, *, hint: str = "", id: int, reason: str, dead_letter: int | None = None) -> None:  # noqa: A002  (as everywhere)
        super().__init__(message, hint=hint)
        self.id = id
        self.reason = reason
        self.dead_letter = dead_letter


class ResultUnavailable(PgQueueError):
    """Nothing is known of a message that was waited for, or its transaction is still open."""


class InvalidSchedule(PgQueueError, ValueError):
    """A definition is not one that a schedule may have. ``field`` names the wrong part."""

    def __init__(self, message: str, *, hint: str = "", field: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class PayloadUndecodable(PgQueueError):
    """The codec cannot decode what is stored of a message, now or later: no key fits, or the codec is another one."""


class CodecUnavailable(PgQueueError):
    """The codec failed for another reason than the payload, such as a key service that does not answer."""


class UnknownHandler(PgQueueError):
    """No handler of this name is registered in this worker."""


class HandlerTimeout(PgQueueError):
    """A handler ran longer than its timeout. It is raised inside of the handler, so that it can clean up."""

    # PyThreadState_SetAsyncExc makes the instance, without arguments.
    def __init__(self, message: str = "The handler ran longer than its timeout.", *, hint: str = "") -> None:
        super().__init__(message, hint=hint)


class WorkerDied(PgQueueError):
    """The process that ran a handler ended before the handler did; the supervisor records it for the message."""


class HandlerError(PgQueueError):
    """A handler did what no handler may do, for example returned something that is not an outcome."""


BY_SQLSTATE: dict[str, type[PgQueueError]] = {
    error.sqlstate: error
    for error in (
        MessageNotFound,
        LeaseLost,
        ChannelNotFound,
        ChannelFull,
        ChannelReleased,
        ChannelBusy,
        InvalidMessage,
        PartitionMissing,
        ScheduleNotFound,
        QueueNotEmpty,
    )
    if error.sqlstate
}
