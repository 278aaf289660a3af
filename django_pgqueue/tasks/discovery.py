"""Load the tasks of a process from the modules that settings name; a message never names a module to import."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from django_pgqueue import handlers
from django_pgqueue.tasks import aliases, finished, registry
from django_pgqueue.tasks.compat import Task


def set_up_tasks() -> None:
    """Connect the signals, and load the tasks; the app's ready() calls it if TASKS has a backend of this queue.

    It may be called again.
    """
    finished.connect_signals()
    discover_tasks()


def discover_tasks() -> None:
    """Register the tasks that are defined or imported in ``tasks.py`` of an installed app, or in OPTIONS ``MODULES``.

    A module that cannot be imported is logged and reported by a system check, and its tasks are not registered.
    """
    for module in dict.fromkeys(task_modules()):
        handlers.discover(module, load_tasks)


def task_modules() -> Iterator[str]:
    """Yield the dotted paths of the modules that may define tasks."""
    for config in apps.get_app_configs():
        if config.name != "django_pgqueue" and module_has_submodule(config.module, "tasks"):
            yield f"{config.name}.tasks"
    for backend in aliases.own_backends().values():
        yield from backend.options.get("MODULES", ())


def load_tasks(name: str) -> None:
    """Import the module and register each task in it."""
    for value in list(vars(import_module(name)).values()):
        if isinstance(value, Task):
            registry.register(value)


def backend_channels() -> Iterator[tuple[str, str]]:
    """Yield the name and the default channel of each queue in QUEUES of this queue's backends."""
    for backend in aliases.own_backends().values():
        for queue in sorted(backend.queues):
            yield queue, backend.options.get("CHANNEL", "default")
