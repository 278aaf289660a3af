"""Define the actions on dead letters, with their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.models import DELETION
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_pgqueue.admin.bulk_actions import Action
from django_pgqueue.admin.confirmation import OptionalReasonForm
from django_pgqueue.admin.edit_payload import PayloadAction
from django_pgqueue.admin.message_actions import with_reason
from django_pgqueue.lifecycle.delete_dead import delete_dead
from django_pgqueue.lifecycle.redrive import redrive

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class DeleteDeadForm(OptionalReasonForm):
    kept = _("Kept in the history.")


def redriven_with(pk: int, payload: Any, using: str) -> tuple[bool, StrOrPromise]:
    """Redrive one dead letter with another payload. Returns whether it was done, and the text for the user."""
    new_ids = redrive([pk], payload=payload, using=using)
    if not new_ids:
        return False, _("The dead letter is redriven already, or another transaction redrives it at this moment.")
    return True, _("Redriven with another payload, as message %d.") % new_ids[pk]


EDIT = PayloadAction(
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
    form=DeleteDeadForm,
    flag=DELETION,
)
