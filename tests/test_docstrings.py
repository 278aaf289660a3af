"""Public functions and methods of the package have docstrings; the rule is in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import django_pgqueue

PACKAGE = Path(django_pgqueue.__file__).parent
MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.parent.name != "migrations" and path.name != "__main__.py"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Django asks for these names: the permission of an action, the field of a form.
HOOK = re.compile(r"has_\w+_permission|clean_\w+")
# Their name, or the description that the admin shows, says what a single statement returns.
SHORT = {"property", "cached_property", "overload", "admin.display", "admin.action"}


def without_docstring(source: str, module: ModuleType | None = None) -> list[str]:
    """Return the names of functions and methods that need a docstring and have none.

    `module` is the module of `source`, or None if none of its classes has a base.
    """
    return [
        name
        for name, function, owner in public_functions(ast.parse(source))
        if ast.get_docstring(function) is None and not may_have_none(function, owner and getattr(module, owner, None))
    ]


def public_functions(tree: ast.Module) -> Iterator[tuple[str, Function, str | None]]:
    """Yield the name, the syntax and the class, or None, of each public function of a module and its public classes."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node, None
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for item in node.body:
                if isinstance(item, Function) and not item.name.startswith("_"):
                    yield f"{node.name}.{item.name}", item, node.name


def may_have_none(function: Function, owner: type | None) -> bool:
    """Return whether the rule lets this function be without a docstring. `owner` is its class."""
    if owner and any(function.name in vars(base) for base in owner.__mro__[1:]):
        return True
    if owner and HOOK.fullmatch(function.name):
        return True
    decorators = {ast.unparse(one).partition("(")[0] for one in function.decorator_list}
    return bool(decorators & SHORT) and len(function.body) == 1
