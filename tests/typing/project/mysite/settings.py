from datetime import timedelta

SECRET_KEY = "not used"
USE_TZ = True
INSTALLED_APPS = ["pgtrigger", "django_pgqueue", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}}
DJANGO_PGQUEUE = {"UNKNOWN_HANDLER_GRACE": timedelta(minutes=5)}
