"""Define @task: the framework's decorator, which refuses the queue's own options on all versions of Django."""

from __future__ import annotations

from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any

from django_pgqueue.tasks import compat
from django_pgqueue.tasks.options import Options

if TYPE_CHECKING:
    from django_pgqueue.tasks.compat import task as task
else:
    # Django 6.0 takes only its own arguments. Django 6.1 and the backport take all fields of the task's class.
    @wraps(compat.task)
    def task(function: Any = None, **given: Any) -> Any:
        """Make a task of the function. Raises TypeError for options of the queue, which belong into @options."""
        if own := sorted(OWN_OPTIONS & given.keys()):
            arguments = ", ".join(f"{name}=…" for name in own)
            names = ", ".join(own)
            raise TypeError(f"@task takes no {names}: write @options({arguments}) of django_pgqueue.tasks above it.")
        if "headers" in given:
            raise TypeError("@task takes no headers: they belong to a call, as in my_task.using(headers=…).enqueue().")
        return compat.task(function, **given)


OWN_OPTIONS = {item.name for item in fields(Options)}
