"""Split a table that may be large into pages: counting stops at a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.paginator import Paginator
from django.utils.functional import cached_property

if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator


class CappedCount(int):
    """Hold a count that stopped at its limit, shown as "10,000+"."""

    def __str__(self) -> str:
        # With USE_THOUSAND_SEPARATOR Django groups the characters from the right, as if all were digits: only a prefix
        # survives that.
        return f">{int(self)}" if settings.USE_THOUSAND_SEPARATOR else f"{int(self):,}+"


class CappedPaginator(AnyPaginator):
    """Count no further than ``limit``; search and filters find the rows beyond."""

    limit = 10_000

    @cached_property
    def count(self) -> int:
        return capped_count(self.object_list, self.limit)


def capped_count(queryset: Any, limit: int) -> int:
    """Return the number of rows, or a CappedCount if it is above the limit."""
    return capped(queryset.order_by().values("pk")[: limit + 1].count(), limit)


def capped(count: int, limit: int) -> int:
    """Return the count, or a CappedCount of the limit if it is above the limit."""
    return CappedCount(limit) if count > limit else count
