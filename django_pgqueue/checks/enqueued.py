"""Find names that are enqueued and that no handler has. The check reads sources, and imports nothing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.core.checks import CheckMessage
from django.core.checks import Warning as Caution

from django_pgqueue import handlers

PACKAGE = "django_pgqueue"
# The callables that take the name of a handler, and its keyword.
CALLS = {"enqueue": "handler", "aenqueue": "handler", "NewMessage": "handler", "schedule": "handler", "handler": "name"}
# The first argument of these is not the name.
KEYWORD_ONLY = {"NewMessage", "schedule"}
# Folders of installed packages, which the project cannot change, and folders whose code invents names.
INSTALLED = {"site-packages", "dist-packages"}
SKIPPED = {"migrations", "tests"}
SHOWN_PLACES = 3


def enqueued_messages() -> list[CheckMessage]:
    """Return a warning for each name that is enqueued and that no handler has."""
    if handlers.broken:
        return []  # Handlers are missing because of that, and pgqueue.E017 says so.
    # Names in sources count too, because some modules are not imported now, such as a command's.
    known = set(handlers.names())
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sources():
        for name, line, registers in names_in(path):
            if registers:
                known.add(name)
            else:
                places[name].append(f"{path}:{line}")
    return [
        Caution(
            f"{name!r} is enqueued, and no handler of the installed apps has this name: "
            f"{', '.join(found[:SHOWN_PLACES])}"
            f"{f' and {len(found) - SHOWN_PLACES} more' if len(found) > SHOWN_PLACES else ''}.",
            hint="Correct the name, or enqueue by the function. If workers of another project have the handler, "
            "silence this check.",
            id="pgqueue.W021",
        )
        for name, found in sorted(places.items())
        if name not in known
    ]


def sources() -> Iterator[Path]:
    """Yield the modules of the project's own apps, without tests and migrations, each once."""
    seen: set[Path] = set()
    for config in apps.get_app_configs():
        root = Path(config.path)
        if config.name.split(".")[0] == PACKAGE or INSTALLED & {*root.parts} or SKIPPED & {*config.name.split(".")}:
            continue
        for path in sorted(root.rglob("*.py")):
            inner = path.relative_to(root)
            is_test = path.name.startswith("test_") or path.name in ("tests.py", "conftest.py")
            if path not in seen and not is_test and not SKIPPED & {*inner.parts}:
                seen.add(path)
                yield path


def names_in(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Yield the names that this module has as literals, their lines, and whether it registers or enqueues them."""
    try:
        source = path.read_bytes()
        # Parsing takes a hundred times as long as reading, so most files are not parsed.
        if PACKAGE.encode() not in source:
            return
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return  # Django reports it when it imports the module; a check must not fail on it.
    known = imported(tree)
    for node in ast.walk(tree):
        call = known.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and call is not None:
            given = [keyword.value for keyword in node.keywords if keyword.arg == CALLS[call]]
            for value in given or ([] if call in KEYWORD_ONLY else node.args[:1]):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value, node.lineno, call == "handler"


def imported(tree: ast.Module) -> dict[str, str]:
    """Return the callables by the names that this module gives them."""
    spelled: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            spelled |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in CALLS}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == PACKAGE:
                    spelled |= {f"{alias.asname or alias.name}.{call}": call for call in CALLS}
    return spelled
