"""What compose.yaml and kubernetes.yaml expect at the end of the project's settings."""

import os


def server(host: str) -> dict:
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": host,
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
        "PASSWORD": os.environ["PGPASSWORD"],
        "DISABLE_SERVER_SIDE_CURSORS": True,
    }


INSTALLED_APPS += ["pgtrigger", "django_pgqueue"]  # noqa: F821  (of the settings above)
DATABASES = {"default": server(os.environ["POOLER_HOST"]), "direct": server(os.environ["DIRECT_HOST"])}
DJANGO_PGQUEUE = {"LISTEN_DATABASE": "direct", "METRICS_TOKEN": os.environ.get("METRICS_TOKEN")}
