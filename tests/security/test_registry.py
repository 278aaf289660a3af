"""Handlers come from the registry. A name in a message chooses among them, and imports, evaluates or finds nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

import django_pgqueue
from django_pgqueue import enqueue, handlers
from django_pgqueue.exceptions import UnknownHandler
from django_pgqueue.models import DeadLetter
from tests.worker.conftest import drain, queue, register, start  # noqa: F401  (fixtures)

PACKAGE = Path(django_pgqueue.__file__).parent
PATHS = [
    "os.system", "os:system", "subprocess.run", "builtins.eval", "eval", "__import__('os').system('true')",
    "django_pgqueue.handlers.unregister", "tests.security.trap.spring", "tests.security.trap",
    "import tests.security.trap",
    "security.echo.", " security.echo", "SECURITY.ECHO", "../handlers", "handlers", "__class__", "",
]  # fmt: skip
HARMLESS = {("re", "compile"), ("json", "loads"), ("json", "load"), ("home", "load"), ("Workload", "load")}
HARMLESS |= {("trigger", "compile"), ("reader.options(**options)", "load")}
IMPORTERS = {
    ("__init__.py", "import_module"),  # the names of this package
    ("handlers.py", "load"),  # handlers.py of installed apps, by import_module
    ("testing/__init__.py", "import_module"),  # the names of that package
    ("apps.py", "import_string"),  # settings: TASKS
    ("tasks/aliases.py", "import_string"),  # settings: TASKS
    ("tasks/discovery.py", "import_module"),  # tasks.py of installed apps; settings: TASKS
    ("checks/configuration.py", "import_string"),  # settings
    ("checks/migrated.py", "import_module"),  # settings: MIGRATION_MODULES
    ("codecs.py", "import_string"),  # settings: PAYLOAD_CODEC, PAYLOAD_KEYS
    ("lifecycle/enqueue.py", "import_string"),  # settings: ENQUEUE_CONTEXT
    ("worker/call/middleware.py", "import_string"),  # settings: HANDLER_MIDDLEWARE
    ("worker/child.py", "import_string"),  # what the supervisor's own code orders
    ("spark/cli.py", "import_module"),  # the list of its commands
}


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


def test_only_installed_apps_and_settings_are_imported_by_name() -> None:
    """Wherever the package imports by a name, evaluates or unpickles. Each place takes its names from the project."""
    dangerous = {"import_module", "import_string", "__import__", "eval", "exec", "loads", "load", "compile"}
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                function = node.func
                word = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
                if word in dangerous and (owner, word) not in HARMLESS:
                    found.add((str(path.relative_to(PACKAGE)), word))
    assert found == IMPORTERS
