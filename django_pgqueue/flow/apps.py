from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _


class FlowConfig(AppConfig):
    """The app with batches: messages that belong together, and the message that follows them."""

    name = "django_pgqueue.flow"
    label = "pgqueue_flow"
    verbose_name = _("PostgreSQL queue: batches")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # Without the queue, Django rejects the migrations with a message that names neither cause nor cure.
        if self.apps is not None and not self.apps.is_installed("django_pgqueue"):
            raise ImproperlyConfigured(
                'django_pgqueue.flow needs the queue: add "django_pgqueue" to INSTALLED_APPS, too.'
            )
        super().import_models()
