"""A task of a project that has django-tasks-db."""

try:
    from django.tasks import task
except ImportError:  # Django 5.2
    from django_tasks import task


@task
def remind(order: int, text: str = "") -> None: ...
