"""The framework's own dummy backend, wherever it is."""

import django

if django.VERSION >= (6, 0):
    from django.tasks.backends.dummy import DummyBackend
else:
    from django_tasks.backends.dummy import DummyBackend

__all__ = ["DummyBackend"]
