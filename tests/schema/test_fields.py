"""A project needs no apps of Django but those that the README names."""

from django.apps import apps


def test_no_field_needs_the_app_django_contrib_postgres() -> None:
    """Django 6 refuses a project that has such a field and not the app."""
    fields = [
        field
        for app in ("pgqueue", "pgqueue_pipeline")
        for model in apps.get_app_config(app).get_models()
        for field in model._meta.local_fields
    ]
    assert fields
    assert [field for field in fields if "contrib.postgres" in type(field).__module__] == []
