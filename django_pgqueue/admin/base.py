"""Hold what all admin pages of the queue share: they read the primary, and never count or load a whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import django
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import models, transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.conf import settings as own
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.sql.call import alias

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django_stubs_ext import StrOrPromise

    AnyAdmin = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
    Text = StrOrPromise
else:
    AnyAdmin, AnyPaginator, Text = admin.ModelAdmin, Paginator, str

MAX_BIGINT = 2**63 - 1
MOST_SEARCHED = 10_000
"""The newest rows in which a part of a text is searched."""
Link = Callable[..., str]
"""A function that makes a link, called as ``BaseAdmin.link`` is."""


def user_of(request: HttpRequest) -> User:
    """Return the user who is logged in; the admin requires one."""
    return cast("User", request.user)


def pk_in(text: str | None) -> int | None:
    """Return the id that a text holds, or None if it holds none that PostgreSQL can compare."""
    return int(text) if text and text.isascii() and text.isdigit() and int(text) <= MAX_BIGINT else None


def needs(permission: str) -> Callable[[Any, HttpRequest], bool]:
    """Return a method of an admin that says whether the user has a permission of this app."""
    return lambda _admin, request: request.user.has_perm(f"pgqueue.{permission}")


def any_of(fields: Iterable[str], term: str) -> models.Q:
    """Return the condition that one of the fields, or of their look-ups, matches."""
    found = models.Q()
    for field in fields:
        found |= models.Q((field, term))
    return found


def never(_admin: Any, request: HttpRequest, obj: Any = None) -> bool:
    """Say that no user has a permission, as a method of an admin."""
    return False


def column(
    description: Text, value: Callable[[Any], str | None], *, ordering: str | None = None
) -> Callable[[Any, Any], str]:
    """Return a column of a list, or a field of a page. ``value``: makes its text from the row; None: it is empty."""

    @admin.display(description=description, ordering=ordering)
    def shown(self: BaseAdmin, item: Any) -> str:
        return self.or_dash(value(item))

    return shown


def breadcrumbs(*steps: tuple[str, Text]) -> dict[str, Any]:
    """Return the context of the template ``breadcrumbs.html``.

    ``steps``: address and text of each page between the admin's index and this one.
    """
    return {"breadcrumbs": steps, "breadcrumbs_as_list": django.VERSION >= (6, 1)}


def refresh_seconds() -> int:
    """Return after how many seconds a page refreshes itself: when there are new figures."""
    return max(1, int(own.MEASURE_INTERVAL.total_seconds()))


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


class LeanChangeList(ChangeList):
    """List rows without their big columns, with the figures that the admin adds to them."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> models.QuerySet[Any]:
        return super().get_queryset(request, exclude_parameters).defer(*cast(BaseAdmin, self.model_admin).big_columns)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        cast(BaseAdmin, self.model_admin).fill(self.result_list)


class BaseAdmin(AnyAdmin):
    """Show a table of the queue."""

    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    big_columns: tuple[str, ...] = ()
    change_list_template = "admin/pgqueue/change_list.html"
    exact_search: tuple[str, ...] = ()
    """Text fields in which a search first looks for the whole text; a number is first searched among the ids."""
    part_search: tuple[str, ...] = ()

    class Media:
        css = {"all": ["django_pgqueue/admin.css"]}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"seconds": refresh_seconds(), **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LeanChangeList

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        # A read replica would show a message as missing that was enqueued a moment ago.
        return super().get_queryset(request).using(alias(None))

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        """Find rows by id or by the exact value of a field of ``exact_search``, each with an index look-up; if there is
        none, by a part of these or of a field of ``part_search``, among the newest MOST_SEARCHED rows."""
        term = search_term.strip()
        if not term or not self.exact_search:
            return super().get_search_results(request, queryset, search_term)
        if (pk := pk_in(term)) is not None:
            # A query of its own, because together with other columns it could not use the index.
            by_id = queryset.filter(pk=pk)
            if by_id.exists():
                return by_id, False
        exact = queryset.filter(any_of(self.exact_search, term))
        if exact.exists():
            return exact, False
        newest = self.model._base_manager.using(queryset.db).order_by("-pk").values("pk")[:MOST_SEARCHED]
        fields = [f"{field}__icontains" for field in ("pk", *self.exact_search, *self.part_search)]
        return queryset.filter(any_of(fields, term), pk__in=newest), False

    def fill(self, rows: list[Any]) -> None:
        """Add the figures that are read for all rows of a page at once."""

    name_shown = column(_("name"), lambda item: rendering.name(item.name), ordering="name")

    def or_dash(self, text: str | None) -> str:
        """Return the text, or the admin's sign for an empty value in place of None."""
        return str(self.get_empty_value_display()) if text is None else text

    def app_trail(self, *steps: tuple[str, Text]) -> dict[str, Any]:
        """Return the breadcrumbs of a page that begin with the app."""
        app = reverse("admin:app_list", args=[self.opts.app_label], current_app=self.admin_site.name)
        return breadcrumbs((app, self.opts.app_config.verbose_name), *steps)

    def page(
        self, request: HttpRequest, template: str, trail: dict[str, Any], *, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Return a page of this admin site. ``trail``: its breadcrumbs."""
        request.current_app = self.admin_site.name
        site = self.admin_site.each_context(request)
        context = {**site, **trail, "opts": self.opts, "media": self.media, **context}
        return TemplateResponse(request, f"admin/pgqueue/{template}.html", context, status=status)

    def url(self, page: str, *args: object, **query: object) -> str | None:
        """Return the address of a page of this admin site, or None if it is not registered there.

        ``page``: its name, for another app than this one's with the app before it, such as ``message_change`` or
        ``pgqueue_message_change``. ``query``: the parameters behind the address.
        """
        name = page if page.startswith("pgqueue_") else f"{self.opts.app_label}_{page}"
        try:
            address = reverse(f"admin:{name}", args=args, current_app=self.admin_site.name)
        except NoReverseMatch:
            return None
        return f"{address}?{urlencode({key: str(value) for key, value in query.items()})}" if query else address

    def link(self, text: object, page: str, *args: object, **query: object) -> str:
        """Return the text as a link to a page, or plain if the page is not registered."""
        address = self.url(page, *args, **query)
        return format_html('<a href="{}">{}</a>', address, text) if address else str(text)

    def count_link(self, count: int, **chosen: object) -> str:
        """Return a number as a link to messages; zero has no link. A CappedCount shows itself as "1,000+"."""
        if int(count) == 0:
            return format_html('<span class="pgqueue-number quiet">{}</span>', str(count))
        return rendering.number(self.link(str(count), "message_changelist", **chosen))

    def link_to_channel(self, queue: str, channel: str, text: object = "") -> str:
        """Return a link to the page of the channel, without a query: that page looks it up.

        ``text``: default: ``queue/channel``.
        """
        text = rendering.name(text or f"{queue}/{channel}")
        return self.link(text, "pgqueue_channel_named", queue=queue, channel=channel)

    def link_for(self, request: HttpRequest) -> Link:
        """Return a function like ``link`` that makes links only to pages that the user may view."""
        allowed: dict[tuple[str, str], bool] = {}

        def link(text: object, page: str, *args: object, **query: object) -> str:
            *app, model, _view = page.split("_") if page else ("", "")
            known = "_".join(app) or "pgqueue", model
            if known not in allowed:
                allowed[known] = request.user.has_perm(f"{known[0]}.view_{model}")
            return self.link(text, page, *args, **query) if allowed[known] and page else str(text)

        return link

    def log(self, request: HttpRequest, objects: Iterable[models.Model], text: Text, *, flag: int = CHANGE) -> None:
        """Write the text into the history of each object."""
        LogEntry.objects.log_actions(user_of(request).pk, list(objects), flag, str(text))

    def show_count(self, request: HttpRequest, text: str, count: int) -> None:
        """Show a message with a count: a success, or a warning if the count is 0."""
        self.message_user(request, text % count, messages.SUCCESS if count else messages.WARNING)

    def apply(
        self, request: HttpRequest, objects: Iterable[models.Model], act: Callable[[Any], Text], *, using: str
    ) -> list[models.Model]:
        """Call ``act`` on each object and log its text, in one transaction each. Returns the objects for which it
        succeeded.

        An error of the queue is shown to the user, and the next object follows.
        """
        done = []
        for item in objects:
            try:
                with transaction.atomic(using=using):
                    self.log(request, [item], act(item))
            except PgQueueError as error:
                self.message_user(request, f"{item}: {error}", messages.ERROR)
            else:
                done.append(item)
        return done


class ReadOnlyAdmin(BaseAdmin):
    """Show a table that only the SQL functions write."""

    has_add_permission = has_change_permission = has_delete_permission = never
