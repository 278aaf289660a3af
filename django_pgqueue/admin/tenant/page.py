"""Build the page of one channel, and find the channel by its name for the links of the lists."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_pgqueue.admin.actions import PausableAdmin
from django_pgqueue.admin.tenant.blocks import Blocks
from django_pgqueue.models import Channel
from django_pgqueue.sql.call import alias


class TenantAdmin(PausableAdmin):
    """Show a channel on ``<id>/tenant/``; ``named/?queue=…&channel=…`` leads there by its name."""

    def get_urls(self) -> list[URLPattern]:
        site = self.admin_site
        return [
            path("named/", site.admin_view(self.named_view), name="pgqueue_channel_named"),
            path("<path:object_id>/tenant/", site.admin_view(self.tenant_view), name="pgqueue_channel_tenant"),
            *super().get_urls(),
        ]

    def named_view(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the page of the channel with this queue and name."""
        self.check_may_view(request)
        queue, name = (request.GET.get(key, "").replace("\0", "") for key in ("queue", "channel"))
        found = self.get_queryset(request).filter(queue=queue, name=name).values_list("pk", flat=True).first()
        if found is None:
            return self.missing(request, queue, name)
        return HttpResponseRedirect(str(self.url("channel_tenant", found)))

    def tenant_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the page of a channel, or perform the action of one of its buttons.

        Raises PermissionDenied if the user may neither view nor change channels.
        """
        self.check_may_view(request)
        if request.method == "POST":
            return self.act_on(request, object_id, request.POST.get("action", ""))
        channel = self.get_object(request, unquote(object_id))
        if channel is None:
            return self.missing(request)
        blocks = Blocks(channel, using=alias(None), may=request.user.has_perm, link=self.link_for(request))
        may_change = self.has_change_permission(request, channel)
        return self.page(
            request,
            "tenant",
            self.trail(request),
            **blocks.context(),
            title=str(channel),
            channel=channel,
            edit=self.with_filters(request, self.url("channel_change", channel.pk)),
            edit_text=_("Edit limits and context") if may_change else _("All settings"),
            history=self.url("channel_history", channel.pk),
            object_actions=self.buttons(request, channel),
        )

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **more: Any
    ) -> HttpResponse:
        """Add the link to the tenant's page."""
        if context.get("object_id"):
            context["tenant_page"] = self.with_filters(request, self.url("channel_tenant", context["object_id"]))
        return super().render_change_form(request, context, *args, **more)

    def response_post_save_change(self, request: HttpRequest, obj: Channel) -> HttpResponseRedirect:
        """Return to the page with the figures, where the effect of the new limits is seen."""
        return HttpResponseRedirect(self.with_filters(request, self.url("channel_tenant", obj.pk)))

    def check_may_view(self, request: HttpRequest) -> None:
        """Raise PermissionDenied if the user may neither view nor change channels."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied

    def trail(self, request: HttpRequest) -> dict[str, Any]:
        """Return the breadcrumbs of the page: the app, and the list of channels."""
        to_list = (self.with_filters(request, self.list_address()), capfirst(str(self.opts.verbose_name_plural)))
        return self.app_trail(to_list)

    def missing(self, request: HttpRequest, queue: str = "", name: str = "") -> HttpResponse:
        """Return the answer 404, with links to what is left of a channel whose name is known."""
        link = self.link_for(request)
        left = {"queue": queue, "channel": name}
        links = [
            link(_("its dead letters"), "deadletter_changelist", **left),
            link(_("its archived messages"), "archivedmessage_changelist", **left),
        ]
        shown = {"title": _("There is no such channel"), "queue": queue, "name": name, "links": links if name else []}
        return self.page(request, "tenant_missing", self.trail(request), status=404, **shown)
