"""Show the list's actions on the page of one object: a button for each that its state allows, then the confirmation
page, and back to the object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_pgqueue.admin.base import BaseAdmin, breadcrumbs

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class ObjectActionsAdmin(BaseAdmin):
    """Show an object with buttons for its actions. Actions are methods; the page of an object posts their names to
    itself."""

    def actions_on(self, item: Any) -> dict[str, StrOrPromise]:
        """Return the actions that the object's state allows, with the texts of their buttons."""
        raise NotImplementedError

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        """Add a button for each action that the object's state and the user's permissions allow."""
        if obj is not None:
            allowed = self.get_actions(request)
            context["object_actions"] = [(name, text) for name, text in self.actions_on(obj).items() if name in allowed]
        return super().render_change_form(request, context, add, change, form_url, obj)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Perform the action of a button, or else show or save the form."""
        if request.method == "POST" and "action" in request.POST:
            return self.act_on(request, object_id, request.POST["action"])
        return super().change_view(request, object_id, form_url, extra_context)

    def act_on(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Do an action on one object, and return to its page, or to the list if it is gone. Raises PermissionDenied."""
        if not self.has_view_or_change_permission(request) or name not in self.get_actions(request):
            raise PermissionDenied
        item = self.get_object(request, unquote(object_id))
        if item is None:
            self.message_user(request, _("The object no longer exists."), messages.WARNING)
            return self.to_list(request)
        if name not in self.actions_on(item):
            text = _("Nothing was done: the state has changed since the page was loaded.")
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        chosen = self.get_queryset(request).filter(pk=item.pk)
        response: HttpResponse | None = getattr(self, name)(request, chosen)
        if isinstance(response, TemplateResponse):
            to_list = (self.list_address(), capfirst(str(self.opts.verbose_name_plural)))
            trail = breadcrumbs(to_list, (request.get_full_path(), str(item)))
            response.context_data = {**(response.context_data or {}), **trail}
        if response is not None:
            return response
        return HttpResponseRedirect(request.get_full_path()) if chosen.exists() else self.to_list(request)

    def to_list(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the list, with the filters that the user came with."""
        return HttpResponseRedirect(self.with_filters(request, self.list_address()))

    def with_filters(self, request: HttpRequest, address: str | None) -> str:
        """Return the address of a page of this model with the filters of the list from which the user came."""
        filters: dict[str, Any] = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return str(add_preserved_filters(filters, address or ""))

    def list_address(self) -> str:
        """Return the URL of the list of this model, without filters."""
        page = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        return reverse(page, current_app=self.admin_site.name)
