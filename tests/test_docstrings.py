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
# Words that say nothing, without an s at the end.
EMPTY = {"a", "an", "for", "get", "it", "of", "return", "the", "thi"}
# Their name, or the description that the admin shows, says what a single statement returns.
SHORT = {"property", "cached_property", "overload", "admin.display", "admin.action"}


def without_docstring(source: str, module: ModuleType | None = None) -> list[str]:
    """Return the names of functions and methods that need a docstring and have none, or one that repeats the name.

    `module` is the module of `source`, or None if none of its classes has a base.
    """
    return [
        name
        for name, function, owner in public_functions(ast.parse(source))
        if not is_described(function) and not may_have_none(function, owner and getattr(module, owner, None))
    ]


def is_described(function: Function) -> bool:
    """Return whether the docstring says more than the name of the function."""
    name = {word.rstrip("s") for word in re.findall(r"[a-z]+", function.name.lower())}
    text = {word.rstrip("s") for word in re.findall(r"[a-z]+", (ast.get_docstring(function) or "").lower())}
    return bool(text - name - EMPTY)


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


def module_of(path: Path) -> ModuleType:
    """Return the module of a file of the package."""
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return importlib.import_module(name.removesuffix(".__init__"))


def test_each_public_function_has_a_docstring_unless_the_rule_lets_it_have_none():
    missing = {
        path.relative_to(PACKAGE).as_posix(): without_docstring(path.read_text(), module_of(path)) for path in MODULES
    }
    assert {path: names for path, names in missing.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def enqueue(): return 1", ["enqueue"]),
        ("async def aenqueue(): return 1", ["aenqueue"]),
        ("def enqueue():\n    'Enqueue a message.'", []),
        ("def enqueue():\n    ''", ["enqueue"]),
        ("def worker_states():\n    'Returns the states of this worker.'", ["worker_states"]),
        ("def _enqueue(): return 1", []),
        ("def enqueue():\n    'Enqueue a message.'\n    def one(): return 1", []),
        ("class Worker:\n    def stop(self): return 1", ["Worker.stop"]),
        ("class Worker:\n    def __len__(self): return 1", []),
        ("class _Worker:\n    def stop(self): return 1", []),
        ("class Worker:\n    @property\n    def name(self): return 1", []),
        ("class Worker:\n    @property\n    def name(self):\n        x = 1\n        return x", ["Worker.name"]),
        ("class Page:\n    @admin.display(description='due')\n    def due(self): return 1", []),
        ("class Page:\n    @admin.action()\n    def act(self):\n        x = 1\n        return x", ["Page.act"]),
    ],
)
def test_where_the_rule_asks_for_a_docstring(source: str, names: list[str]):
    assert without_docstring(source) == names


def test_an_override_and_a_hook_of_django_need_none_and_other_methods_do():
    module = ModuleType("page")
    source = """
class Base:
    def stop(self): return 1

class Page(Base):
    def stop(self): return 2
    def has_stop_permission(self, request): return True
    def clean_name(self): return ""
    def start(self): return 3

def clean_name(): return ""
"""
    exec(source, module.__dict__)
    assert without_docstring(source, module) == ["Base.stop", "Page.start", "clean_name"]
