from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _


class PgQueueConfig(AppConfig):
    name = "django_pgqueue"
    label = "pgqueue"
    verbose_name = _("PostgreSQL queue")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # Without pgtrigger, Django rejects Meta.triggers with a message that names neither cause nor cure.
        if not self.apps.is_installed("pgtrigger"):
            raise ImproperlyConfigured('django_pgqueue needs django-pgtrigger: add "pgtrigger" to INSTALLED_APPS.')
        super().import_models()

    def ready(self) -> None:
        from django_pgqueue import checks  # noqa: F401  registers the system checks
