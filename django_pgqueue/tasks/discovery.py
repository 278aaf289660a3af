"""Load the tasks of a process from the modules that settings name, never from one that a message names."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from django_pgqueue import handlers
from django_pgqueue.tasks import aliases, finished, registry
from django_pgqueue.tasks.compat import Task


def set_up_tasks() -> None:
    """When the project starts, and a backend of ours is in TASKS. May be called again."""
    finished.connect_signals()
    discover_tasks()


def discover_tasks() -> None:
    """Register the tasks that are defined or imported in ``tasks.py`` of an installed app, or in OPTIONS ``MODULES``.

    A module that cannot be imported is said in the log and by a system check, and takes its own tasks away.
    """
    for module in dict.fromkeys(task_modules()):
        handlers.discover(module, load_tasks)


def task_modules() -> Iterator[str]:
    for config in apps.get_app_configs():
        if config.name != "django_pgqueue" and module_has_submodule(config.module, "tasks"):
            yield f"{config.name}.tasks"
    for backend in aliases.own_backends().values():
        yield from backend.options.get("MODULES", ())


def load_tasks(name: str) -> None:
    for value in list(vars(import_module(name)).values()):
        if isinstance(value, Task):
            registry.register(value)


def default_channels() -> Iterator[tuple[str, str]]:
    """Yield queue and default channel of each queue that the backends name, for tasks that name no channel."""
    for backend in aliases.own_backends().values():
        for queue in sorted(backend.queues):
            yield queue, backend.options.get("CHANNEL", "default")
