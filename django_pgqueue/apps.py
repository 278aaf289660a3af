import logging

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _

LOGGERS = ("django_pgqueue", "django_pgqueue.database", "django_pgqueue.maintenance", "django_pgqueue.worker")


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
        from django_pgqueue import checks, handlers  # noqa: F401  registers the system checks
        from django_pgqueue.redaction import RedactingFilter

        for name in LOGGERS:
            logging.getLogger(name).addFilter(RedactingFilter())

        # Enqueuers go by the policy of a handler too: its queue, attempts and back-off.
        handlers.autodiscover()
        post_migrate.connect(create_default_channel, sender=self)
        post_migrate.connect(sync_schedules, sender=self)


def create_default_channel(sender: AppConfig, using: str, **kwargs: object) -> None:
    """Every project has the channel ``default``; flush sends this signal too, so that tests keep it."""
    if not router.allow_migrate(using, sender.label) or connections[using].vendor != "postgresql":
        return
    channel = sender.get_model("Channel")
    if channel._meta.db_table in connections[using].introspection.table_names():
        channel.objects.using(using).get_or_create(queue="default", name="default")


def sync_schedules(sender: AppConfig, using: str, **kwargs: object) -> None:
    """What code declares is in the table after each deployment, also where no worker has started yet."""
    from django_pgqueue.checks.migrated import is_migrated
    from django_pgqueue.lifecycle.database import alias
    from django_pgqueue.maintenance import declared

    if not router.allow_migrate(using, sender.label) or connections[using].vendor != "postgresql":
        return
    if using == alias(None) and is_migrated(using):
        declared.sync(using)
