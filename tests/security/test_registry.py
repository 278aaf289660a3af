"""Handlers come from the registry. A name in a message chooses among them, and imports, evaluates or finds nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_pgqueue import enqueue, handlers
from django_pgqueue.exceptions import UnknownHandler
from django_pgqueue.models import DeadLetter
from tests.worker.conftest import drain, queue, register, start  # noqa: F401  (fixtures)

PATHS = [
    "os.system", "os:system", "subprocess.run", "builtins.eval", "eval", "__import__('os').system('true')",
    "django_pgqueue.handlers.unregister", "tests.security.trap.spring", "tests.security.trap",
    "import tests.security.trap",
    "security.echo.", " security.echo", "SECURITY.ECHO", "../handlers", "handlers", "__class__", "",
]  # fmt: skip
HARMLESS = {("re", "compile"), ("json", "loads"), ("json", "load"), ("home", "load"), ("Workload", "load")}
HARMLESS |= {("trigger", "compile"), ("reader.options(**options)", "load")}


def test_a_name_that_is_not_registered_is_a_dead_letter_and_nothing_is_imported(
    drain: Callable[..., Any],  # noqa: F811
) -> None:
    names = [name for name in PATHS if name]
    for name in names:
        payload = {"handler": "tests.security.trap.spring", "__reduce__": ["os.system", ["true"]], "py/object": name}
        enqueue(name, payload, headers={"handler": "tests.security.trap.spring"}, max_attempts=1)
    before = set(sys.modules)
    with override_settings(DJANGO_PGQUEUE={"UNKNOWN_HANDLER_GRACE": timedelta(0)}):
        assert drain() == {"dead_lettered": len(names)}
    assert not {module for module in set(sys.modules) - before if "trap" in module}
    letters = DeadLetter.objects.all()
    assert sorted(letter.handler for letter in letters) == sorted(names)
    assert {letter.errors[0]["type"].rpartition(".")[2] for letter in letters} == {"UnknownHandler"}


def test_the_registry_knows_whole_names_only() -> None:
    for name in PATHS:
        assert handlers.find(name) is None
        with pytest.raises(UnknownHandler):
            handlers.get(name)
