"""cancel: archive messages whose work is no longer wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from django_pgqueue.lifecycle.arguments import checked_text, ids_of
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask

SQL = "SELECT id, outcome, refusal FROM pgqueue_cancel(%s::bigint[], %s::text)"


def cancel(
    ids: int | Iterable[int], *, reason: str = "", using: str | None = None
) -> dict[int, Literal["cancelled", "requested", "settled", "not_found"]]:
    """Cancel messages by their ids. Returns the outcome of each.

    ``ids``: one id or several. ``reason``: text that is kept in the archive. ``using``: database alias; default: the
    queue's.

    Returns an outcome for each id. ``cancelled``: the message was waiting and is in the archive now. ``requested``: it
    is leased; its worker learns of the request with the next heartbeat, and the message is not delivered again.
    ``settled``: it is in the archive or a dead letter already. ``not_found``: no such message exists.

    Raises MessageNotFound if a single id is given and no such message exists.
    """
    asked = ids_of(ids)
    return dict(ask(alias(using), SQL, (asked, checked_text(reason, "reason")))) if asked else {}
