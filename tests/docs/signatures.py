"""The signatures of the page about the Python API, beside those of the code."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields, is_dataclass
from typing import Any

from tests.support.markdown import DOCS, blocks

Function = ast.FunctionDef | ast.AsyncFunctionDef


def stubs(path: str = "python-api.md") -> dict[str, Function]:
    """Return the signatures of the Python API, as its page has them."""
    found = {}
    for block in blocks(DOCS / "reference" / path):
        if block.language == "pyi":
            for node in ast.parse(block.text).body:
                if isinstance(node, Function):
                    found[node.name] = node
                elif isinstance(node, ast.ClassDef):
                    found[node.name] = next((item for item in node.body if isinstance(item, ast.FunctionDef)), node)
    return found


def documented_parameters(node: Function) -> list[tuple[str, bool, str | None]]:
    """Name, keyword only or not, and default of each parameter."""
    plain = [argument.arg for argument in node.args.args]
    defaults = [None] * (len(plain) - len(node.args.defaults)) + [ast.unparse(value) for value in node.args.defaults]
    documented = [(parameter, False, default) for parameter, default in zip(plain, defaults, strict=True)]
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        documented.append((argument.arg, True, None if default is None else ast.unparse(default)))
    return [parameter for parameter in documented if parameter[0] != "self"]


def factories(function: Any) -> list[Any]:
    """The fields of a dataclass whose default a function makes."""
    return [field for field in fields(function) if callable(field.default_factory)] if is_dataclass(function) else []


def real_parameters(function: Any) -> list[tuple[str, bool, str | None]]:
    made = {field.name: field.default_factory() for field in factories(function)}
    return [
        (
            parameter.name,
            parameter.kind is parameter.KEYWORD_ONLY,
            None if parameter.default is parameter.empty else repr(made.get(parameter.name, parameter.default)),
        )
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
