from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class HttpConfig(AppConfig):
    name = "django_pgqueue.http"
    label = "pgqueue_http"
    verbose_name = _("PostgreSQL queue: HTTP")
    default_auto_field = "django.db.models.BigAutoField"
