import logging
from contextlib import suppress
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

LOGGERS = ("django_pgqueue", "django_pgqueue.database", "django_pgqueue.maintenance", "django_pgqueue.worker")


class PgQueueConfig(AppConfig):
    name = "django_pgqueue"
    label = "pgqueue"
    verbose_name = _("PostgreSQL queue")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # Without pgtrigger, Django rejects Meta.triggers with a message that names neither cause nor cure.
        if self.apps is not None and not self.apps.is_installed("pgtrigger"):
            raise ImproperlyConfigured('django_pgqueue needs django-pgtrigger: add "pgtrigger" to INSTALLED_APPS.')
        super().import_models()

    def ready(self) -> None:
        """Hide secrets in logs, import the handlers, set up tasks, and fill tables again after a flush."""
        from django_pgqueue import checks, handlers  # noqa: F401  registers the system checks
        from django_pgqueue.redaction import RedactingFilter

        for name in LOGGERS:
            logging.getLogger(name).addFilter(RedactingFilter())

        # Processes that only enqueue need the handlers too: they give the queue, the attempts and the back-off.
        handlers.autodiscover()
        if keeps_tasks():
            from django_pgqueue.tasks import discovery

            discovery.set_up_tasks()
        # The order matters: a flush is recognised by the default channel that does not exist yet.
        post_migrate.connect(empty_rest_of_flush, sender=self)
        post_migrate.connect(create_default_channel, sender=self)
        post_migrate.connect(keep_ready, sender=self)
        connection_created.connect(read_times)


def read_times(connection: Any, **kwargs: object) -> None:
    """Make the sessions on the queue's database write times as psycopg and Django read them."""
    from django_pgqueue.sql.call import alias
    from django_pgqueue.sql.pinned import pin_date_style

    if connection.vendor == "postgresql" and connection.alias == alias(None):
        pin_date_style(connection.connection)


def is_ours(sender: AppConfig, using: str) -> bool:
    """Return whether this is the signal of the queue's app, on a database that is to have its tables.

    Django identifies senders by the address of the object: where INSTALLED_APPS has been overridden, another app may
    have the address of an old config of this app.
    """
    if not isinstance(sender, PgQueueConfig) or connections[using].vendor != "postgresql":
        return False
    return bool(router.allow_migrate(using, sender.label))


def empty_rest_of_flush(sender: AppConfig, using: str, **kwargs: object) -> None:
    """Empty the tables of the line after a flush, which empties only Django's tables. A flush sends the signal without
    a plan."""
    from django_pgqueue.checks.migrated import is_migrated
    from django_pgqueue.sql.flush import empty_rest

    if is_ours(sender, using) and "plan" not in kwargs and is_migrated(using):
        empty_rest(using)


def keeps_tasks() -> bool:
    """Return whether TASKS has a backend of this package. If not, Django's Tasks framework need not be installed."""
    for params in getattr(settings, "TASKS", {}).values():
        with suppress(Exception):  # the framework itself reports it as soon as the backend is used
            if getattr(import_string(params["BACKEND"]), "keeps_tasks_in_pgqueue", False):
                return True
    return False


def default_channels() -> list[tuple[str, str]]:
    """Return queue and name of the channels that every project has."""
    if not keeps_tasks():
        return [("default", "default")]
    from django_pgqueue.tasks import discovery

    return list(dict.fromkeys([("default", "default"), *discovery.backend_channels()]))


def create_default_channel(sender: AppConfig, using: str, **kwargs: object) -> None:
    """Create the channel ``default``, in each queue for tasks too. A flush sends this signal as well, so tests keep
    them."""
    if not is_ours(sender, using):
        return
    channel = sender.get_model("Channel")
    if channel._meta.db_table in connections[using].introspection.table_names():
        for queue, name in default_channels():
            channel._default_manager.using(using).get_or_create(queue=queue, name=name)


def keep_ready(sender: AppConfig, using: str, **kwargs: object) -> None:
    """Write the schedules and limits of the code to the database, and create today's partition of the archive.

    After a migration all exist, even if no worker has started yet, and in a test database that is kept for weeks.
    """
    from django_pgqueue.checks.migrated import is_migrated
    from django_pgqueue.lifecycle.upkeep import make_partitions
    from django_pgqueue.maintenance import declared
    from django_pgqueue.sql.call import alias

    if is_ours(sender, using) and using == alias(None) and is_migrated(using):
        make_partitions(using=using)
        declared.sync_declared(using)
