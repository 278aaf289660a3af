"""Make and revoke the keys of the HTTP door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pgqueue.http.models import Key

if TYPE_CHECKING:
    KeyModelAdmin = admin.ModelAdmin[Key]
else:
    KeyModelAdmin = admin.ModelAdmin


@admin.register(Key)
class KeyAdmin(KeyModelAdmin):
    """Show keys. A new one is shown once, after it is saved; one is deleted to revoke it."""

    list_display = ("name", "queue", "channel", "verbs", "created_at")
    search_fields = ("name", "channel")

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name == "verbs":
            return forms.MultipleChoiceField(choices=Key.Verb.choices, widget=forms.CheckboxSelectMultiple)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Key, form: Any, change: bool) -> None:
        secret = None if change else obj.renew()
        super().save_model(request, obj, form, change)
        if secret:
            text = _("The key is %s. Copy it now: it is not stored, and cannot be shown again.")
            self.message_user(request, text % secret, messages.WARNING)
