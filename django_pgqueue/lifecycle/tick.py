"""tick: promote what is due and move the floors; the small step that workers take a few times a second."""

from __future__ import annotations

from django_pgqueue.lifecycle.arguments import whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def tick(limit: int = 1000, *, using: str | None = None) -> int:
    """Make up to ``limit`` scheduled messages ready that are due. Returns how many."""
    promoted: int = call(alias(using), "SELECT pgqueue_tick(%s::integer)", (whole(limit, "limit", least=0),))[0][0]
    return promoted
