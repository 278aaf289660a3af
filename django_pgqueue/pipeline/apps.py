from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _


class PipelineConfig(AppConfig):
    """The app with the tables of the pipeline: the registry of lakes, loaded metrics, bulk enqueues, streams."""

    name = "django_pgqueue.pipeline"
    label = "pgqueue_pipeline"
    verbose_name = _("PostgreSQL queue: pipeline")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # Without the queue, Django rejects the migrations with a message that names neither cause nor cure.
        if self.apps is not None and not self.apps.is_installed("django_pgqueue"):
            raise ImproperlyConfigured(
                'django_pgqueue.pipeline needs the queue: add "django_pgqueue" to INSTALLED_APPS, too.'
            )
        super().import_models()
