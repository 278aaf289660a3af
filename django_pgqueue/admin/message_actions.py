"""Define the actions on live messages and dead letters, with their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib.admin.models import DELETION
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_pgqueue import cancel, delete_dead, discard, edit, lease_release, redrive, reschedule
from django_pgqueue.admin.base import Text
from django_pgqueue.admin.bulk_actions import Action
from django_pgqueue.admin.confirmation import OptionalReasonForm
from django_pgqueue.admin.edit_payload import PayloadAction
from django_pgqueue.lifecycle.sealing import event_text
from django_pgqueue.sql.call import call

# Only the app of batches has steps.
WAITING = "FROM pgqueue_step AS s WHERE s.message_id = ANY (%s) AND s.kind = 'wait' AND s.until IS NOT NULL"
NOTIFY = f"""
SELECT w.message_id, pgqueue_notify_event(w.name, %s::jsonb) FROM (
    SELECT s.message_id, s.name {WAITING} ORDER BY s.name
) AS w
"""  # noqa: S608
SETTLED = ngettext_lazy("%d message was settled already.", "%d messages were settled already.")
GONE = ngettext_lazy("%d message no longer exists.", "%d messages no longer exist.")
BUSY = ngettext_lazy(
    "%d message is unchanged: another transaction takes or settles it at this moment.",
    "%d messages are unchanged: other transactions take or settle them at this moment.",
)
# Outcomes that every action on a live message may have, with the messages that it left unchanged.
UNCHANGED = {"busy": BUSY, "settled": SETTLED, "not_found": GONE}
LEASED = ngettext_lazy("%d message is unchanged: a worker has it.", "%d messages are unchanged: workers have them.")


def with_reason(done: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that makes the text of the history: the action, and the reason if there is one."""

    def logged(cleaned: Mapping[str, Any]) -> str:
        reason = cleaned.get("reason")
        return f"{done}: {reason}" if reason else f"{done}."

    return logged


class WhenForm(forms.Form):
    at = forms.DateTimeField(
        label=_("Due at"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "autofocus": True}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = {"zone": timezone.get_current_timezone_name()}
        self.fields["at"].help_text = now("In the time zone %(zone)s. A time that has passed means now.") % zone
        self.fields["at"].initial = timezone.localtime() + timedelta(hours=1)
        # Browsers send these formats, whatever the language of the page.
        field: Any = self.fields["at"]
        field.input_formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


def rescheduled_text(cleaned: Mapping[str, Any]) -> str:
    """Return the text of the history for a new time."""
    return now("Rescheduled to %s.") % date_format(timezone.localtime(cleaned["at"]), "j M Y, H:i e")


def cancel_messages(ids: list[int], reason: str, using: str) -> dict[int, str]:
    """Cancel the messages. A second id keeps cancel from raising for a single id that no longer exists."""
    return {pk: outcome for pk, outcome in cancel([*ids, 0], reason=reason, using=using).items() if pk}


CANCEL = Action(
    name="cancel",
    title=_("Cancel messages"),
    consequence=_(
        "Messages that wait go to the archive as cancelled. The workers of leased messages are asked to stop: "
        "they may still complete them, but the messages are not delivered again."
    ),
    button=_("Cancel these messages"),
    run=lambda ids, cleaned, using: cancel_messages(ids, cleaned["reason"], using),
    done={
        "cancelled": ngettext_lazy("%d message is cancelled.", "%d messages are cancelled."),
        "requested": ngettext_lazy(
            "%d message is leased: its worker is asked to stop.",
            "%d messages are leased: their workers are asked to stop.",
        ),
    },
    left={"settled": SETTLED, "not_found": GONE},
    logged=with_reason("Cancelled"),
    form=partial(OptionalReasonForm, kept=_("Kept in the archive.")),
)
RETRY_NOW = Action(
    name="retry_now",
    title=_("Retry messages now"),
    consequence=_(
        "Scheduled and held messages are ready at once, whatever their back-off says. Attempts and errors stay. Ready "
        "messages keep their places; leased messages stay with their workers."
    ),
    button=_("Retry now"),
    run=lambda ids, cleaned, using: reschedule(ids, using=using),
    done={"rescheduled": ngettext_lazy("%d message is ready now.", "%d messages are ready now.")},
    left={
        "ready": ngettext_lazy("%d message was ready already.", "%d messages were ready already."),
        "leased": LEASED,
        **UNCHANGED,
    },
    logged=with_reason("To be retried now"),
)
RESCHEDULE = Action(
    name="reschedule",
    title=_("Reschedule messages"),
    consequence=_(
        "Ready and scheduled messages are due at the time below, not before. Leased messages stay with their workers."
    ),
    button=_("Reschedule"),
    run=lambda ids, cleaned, using: reschedule(ids, at=cleaned["at"], using=using),
    done={"rescheduled": ngettext_lazy("%d message is rescheduled.", "%d messages are rescheduled.")},
    left=RETRY_NOW.left,
    logged=rescheduled_text,
    form=WhenForm,
)


class EventForm(forms.Form):
    payload = forms.JSONField(label=_("Payload (JSON)"), required=False, widget=forms.Textarea(attrs={"rows": 4}))


def notify_events(ids: list[int], payload: Any, using: str) -> dict[int, str]:
    """Notify the events that the messages wait for. Returns the outcome of those that wait for one."""
    return dict.fromkeys((row[0] for row in call(using, NOTIFY, (event_text(payload), ids))), "notified")


NOTIFY_EVENT = Action(
    name="notify_event",
    title=_("Notify the events that messages wait for"),
    consequence=_("The messages go on with the payload below, and so do all others that wait for the same events."),
    button=_("Notify"),
    run=lambda ids, cleaned, using: {
        **dict.fromkeys(ids, "not_waiting"), **notify_events(ids, cleaned["payload"], using),
    },
    done={"notified": ngettext_lazy("%d message goes on.", "%d messages go on.")},
    left={
        "not_waiting": ngettext_lazy(
            "%d message does not wait for an event.", "%d messages do not wait for an event."
        ),
    },
    logged=lambda cleaned: now("Its event was notified by hand."),
    form=EventForm,
)  # fmt: skip
DISCARD = Action(
    name="discard",
    title=_("Discard messages"),
    consequence=_(
        "They become dead letters with the reason discarded; a redrive brings them back. This includes leased "
        "messages: their handlers run on, but their outcomes are refused, and writes of atomic handlers are rolled "
        "back."
    ),
    button=_("Discard"),
    run=lambda ids, cleaned, using: discard(ids, reason=cleaned["reason"], using=using),
    done={"discarded": ngettext_lazy("%d message is discarded.", "%d messages are discarded.")},
    left=UNCHANGED,
    logged=with_reason("Discarded"),
    form=partial(OptionalReasonForm, kept=_("Kept with the dead letters.")),
)
RELEASE = Action(
    name="release_leases",
    title=_("Release leases"),
    consequence=_(
        "The messages are taken away from their workers and are ready at once. The attempt counts; if it was the "
        "last one, the message becomes a dead letter. Use this only for workers that hang or have died: a message of "
        "a live worker may run twice at the same time."
    ),
    button=_("Release leases"),
    run=lambda ids, cleaned, using: lease_release(ids, reason=cleaned["reason"], using=using),
    done={
        "released": ngettext_lazy("%d lease is released.", "%d leases are released."),
        "dead_lettered": ngettext_lazy(
            "%d message had no attempt left: it is a dead letter.",
            "%d messages had no attempt left: they are dead letters.",
        ),
        "cancelled": ngettext_lazy(
            "%d message had a requested cancellation, and is cancelled.",
            "%d messages had a requested cancellation, and are cancelled.",
        ),
    },
    left={"waiting": ngettext_lazy("%d message has no lease.", "%d messages have no lease."), **UNCHANGED},
    logged=with_reason("Lease released"),
    form=partial(OptionalReasonForm, kept=_("Kept with the errors of the messages.")),
)


def edit_message(pk: int, payload: Any, using: str) -> tuple[bool, str]:
    """Replace the payload. Returns whether it was done, and the text for the user."""
    outcome = edit(pk, payload, using=using)
    if outcome == "edited":
        return True, now("The payload is replaced.")
    return False, str((LEASED if outcome == "leased" else RETRY_NOW.left[outcome]) % 1)


EDIT = PayloadAction(
    name="edit",
    title=_("Edit a payload"),
    consequence=_("The message keeps its place, its attempts and its errors. A leased message cannot be edited."),
    button=_("Replace the payload"),
    run=edit_message,
)


def redriven_with(pk: int, payload: Any, using: str) -> tuple[bool, Text]:
    """Redrive one dead letter with another payload. Returns whether it was done, and the text for the user."""
    new_ids = redrive([pk], payload=payload, using=using)
    if not new_ids:
        return False, _("The dead letter is redriven already, or another transaction redrives it at this moment.")
    return True, _("Redriven with another payload, as message %d.") % new_ids[pk]


EDIT_DEAD = PayloadAction(
    name="edit",
    title=_("Redrive with another payload"),
    consequence=_(
        "A new message with this payload goes to the end of its channel, with all its attempts. The dead letter keeps "
        "the old payload, and names the new message."
    ),
    button=_("Redrive"),
    run=redriven_with,
)
DELETE_DEAD = Action(
    name="delete_dead",
    title=_("Delete dead letters for good"),
    consequence=_(
        "No redrive brings them back. A lake keeps what was exported before. Dead letters "
        "that were redriven are left out."
    ),
    button=_("Delete for good"),
    run=lambda ids, cleaned, using: delete_dead(ids, using=using),
    done={"deleted": ngettext_lazy("%d dead letter is deleted.", "%d dead letters are deleted.")},
    left={
        "redriven": ngettext_lazy(
            "%d dead letter was redriven, and stays.", "%d dead letters were redriven, and stay."
        ),
        "unexported": ngettext_lazy(
            "%d dead letter stays until a lake has it.", "%d dead letters stay until a lake has them."
        ),
        "busy": ngettext_lazy(
            "%d dead letter is unchanged: another transaction has locked it. Repeat the action.",
            "%d dead letters are unchanged: other transactions have locked them. Repeat the action.",
        ),
        "not_found": ngettext_lazy("%d dead letter no longer exists.", "%d dead letters no longer exist."),
    },
    logged=with_reason("Deleted"),
    form=partial(OptionalReasonForm, kept=_("Kept in the history.")),
    flag=DELETION,
)
