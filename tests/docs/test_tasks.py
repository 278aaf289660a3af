"""The reference of django_pgqueue.tasks says what the code says."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from django_pgqueue import tasks
from django_pgqueue.tasks.checks import RULES
from tests.docs.signatures import documented_parameters, real_parameters
from tests.support.cases import cases
from tests.support.markdown import DOCS, blocks, page, section

PAGE = "docs/reference/tasks.md"
FUNCTIONS = {
    "options": tasks.options,
    "options_of": tasks.options_of,
    "PgQueueTask": tasks.PgQueueTask.using,
    "enqueue_many": tasks.enqueue_many,
    "register": tasks.register,
}


def stub(name: str) -> ast.FunctionDef:
    for block in blocks(DOCS / "reference" / "tasks.md"):
        if block.language == "pyi":
            [node] = ast.parse(block.text).body
            if node.name == name:
                return node.body[0] if isinstance(node, ast.ClassDef) else node
    raise AssertionError(f"{name} is not there")


@cases("name", FUNCTIONS)
def test_a_function_is_there_with_its_parameters(name: str) -> None:
    real = [parameter for parameter in real_parameters(FUNCTIONS[name]) if parameter[0] != "self"]
    assert documented_parameters(stub(name)) == real


def test_a_call_is_there_with_its_fields() -> None:
    documented = [parameter for parameter, _, _ in documented_parameters(stub("Call"))]
    assert documented == list(inspect.signature(tasks.Call).parameters)


def test_every_public_name_is_there() -> None:
    headings = set(re.findall(r"^## (\w+)$", page(PAGE), re.MULTILINE))
    assert headings | {"Options", "aenqueue_many"} == set(tasks.__all__)
    for name in ("Options", "aenqueue_many"):
        assert f"`{name}`" in page(PAGE)


@pytest.mark.parametrize("path", [PAGE, "docs/how-to/tasks.md"])
def test_every_option_of_the_backend_is_there(path: str) -> None:
    text = section(page(path), "PgQueueBackend" if path == PAGE else "Switch it on")
    assert set(RULES) == set(re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE))
