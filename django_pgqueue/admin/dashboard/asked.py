"""Read the choices of a request for the dashboard, and make links with other choices."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.http import urlencode

from django_pgqueue.admin.dashboard.figures import ORDERS

MOST_PAGES = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold the choices of a request. ``name``: a part of channels' names. ``page``: the page of channels, from 0."""

    queue: str | None
    name: str
    order: str
    page: int

    @classmethod
    def of(cls, request: HttpRequest) -> Asked:
        """Read the choices from the query string. A wrong value becomes the default."""
        # PostgreSQL has no text with NUL.
        given = {key: request.GET.get(key, "").replace("\0", "").strip() for key in ("queue", "q", "order", "p")}
        page = given["p"]
        return cls(
            queue=given["queue"] or None,
            name=given["q"][:200],
            order=given["order"] if given["order"] in ORDERS else "backlog",
            page=min(int(page), MOST_PAGES) if page.isascii() and page.isdigit() and len(page) < 6 else 0,
        )

    def address(self, **changed: object) -> str:
        """Return the address with the same choices except the given ones; the first page, unless another is chosen."""
        chosen = {"queue": self.queue, "q": self.name, "order": self.order, **changed}
        return "?" + urlencode({key: str(value) for key, value in chosen.items() if value})
