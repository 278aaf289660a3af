"""The calls of each SQL function, read from the sources, in the form in which its header must name them.

The form is defined in CONTRIBUTING.md, "Change SQL". ``python -m tests.schema.call_graph`` prints it for all functions.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from django_pgqueue.sql import files

PACKAGE = files.PACKAGE
LATEST = files.latest_functions()
NO_CALLER = "SQL clients"
CALL = re.compile(r"\b(pgqueue_\w+)\(")
TRIGGER = re.compile(r"execute='(pgqueue_\w+)\(\)'.*?table='(\w+)'")
# A string that begins otherwise is a hint or a message that quotes a call, not a statement.
STATEMENT = re.compile(r"\s*(?:SELECT|CALL|WITH|INSERT|UPDATE|DELETE)\b")
LITERAL = re.compile(r"'(?:[^']|'')*'")


def called_by_sql(body: str) -> set[str]:
    """Return the functions of ours that a body calls, itself or in a statement that it executes."""
    code = re.sub(r"--.*", "", body)
    executed = [text for text in LITERAL.findall(code) if STATEMENT.match(text[1:])]
    return set(CALL.findall(" ".join([LITERAL.sub("''", code), *executed]))) & set(LATEST)


def strings(tree: ast.AST) -> list[str]:
    """Return the string literals of a module, an f-string as one, with {} for its fields."""
    found: list[str] = []
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(value) for value in node.values}
            found.append("".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            found.append(node.value)
    return found


def called_by_python(source: str) -> set[str]:
    """Return the functions of ours that the SQL statements of a module call."""
    statements = (text for text in strings(ast.parse(source)) if STATEMENT.match(text))
    return {name for text in statements for name in CALL.findall(text)} & set(LATEST)


def module(path: Path) -> str:
    """Return the dotted name of a module, without the leading ``django_pgqueue``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


@cache
def callers() -> dict[str, str]:
    """Return, for each function, what its header must say after ``Caller:``."""
    functions: dict[str, set[str]] = {name: set() for name in LATEST}
    modules: dict[str, set[str]] = {name: set() for name in LATEST}
    triggers: dict[str, set[str]] = {name: set() for name in LATEST}
    for name, version in LATEST.items():
        for called in called_by_sql(files.function_body(name, version)) - {name}:
            functions[called].add(name)
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for called in called_by_python(source):
            modules[called].add(module(path))
        for called, table in TRIGGER.findall(source):
            triggers[called].add(f"trigger of {table}")
    return {
        name: "; ".join(", ".join(sorted(kind[name])) for kind in (triggers, functions, modules) if kind[name])
        or NO_CALLER
        for name in LATEST
    }


def named(header: str) -> str:
    """Return what a header says after ``Caller:``, in one line, up to the period that ends it."""
    text = " ".join(line.removeprefix("--").strip() for line in header.splitlines())
    found = re.search(r"\bCaller: (.*?)\.(?: |$)", text)
    return found[1] if found else ""


if __name__ == "__main__":
    for function, caller in callers().items():
        print(f"{function}: {caller}")
