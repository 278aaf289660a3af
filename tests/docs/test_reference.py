"""The reference is complete, and says what the code says."""

from __future__ import annotations

import ast
import inspect
import re
from argparse import Action, ArgumentParser
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from inspect import isfunction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command, load_command_class
from django.db import connection
from django.dispatch import Signal

import django_pgqueue
from django_pgqueue import exceptions, outcomes, signals, testing
from django_pgqueue.conf import DEFAULTS
from django_pgqueue.doctor import EXAMINATIONS
from django_pgqueue.spark.cli import COMMANDS as PIPELINE
from django_pgqueue.sql import files
from tests.docs.markdown import DOCS, PAGES, REPOSITORY, anchors, blocks, links, name, page, prose, section

PACKAGE = REPOSITORY / "django_pgqueue"
FUNCTIONS = sorted(files.latest_functions())
COMMANDS = sorted(path.stem for path in (PACKAGE / "management" / "commands").glob("[a-z]*.py"))
TABLES = [
    "queue", "channel", "message", "archived_message", "dead_letter", "worker", "lane", "arrival", "floor",
    "channel_size", "departure", "waiter", "tally", "schedule", "schedule_tick", "lake", "queue_metric",
    "unarchived", "unarchived_total", "queue_warning", "pruned",
    "backlog_forecast", "ingest", "ingest_stage", "stream", "stream_claim", "activity", "backlog", "measurement",
]  # fmt: skip
# A page that says which test checks what it says, as `tests/lifecycle/test_enqueue.py::test_a_rollback_leaves_nothing`.
IMPORT = re.compile(r"^(?:>>> )?from (django_pgqueue[\w.]*) import ([\w, ]+)$", re.MULTILINE)
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_there_with_its_signature(function: str) -> None:
    newest = files.read("functions", function, files.latest_functions()[function])
    signature = re.search(r"^CREATE (?:FUNCTION|PROCEDURE) (.*?)^LANGUAGE", newest, re.MULTILINE | re.DOTALL)[1]
    path = DOCS / "reference" / "sql-functions.md"
    told = [in_one_line(block.text) for block in blocks(path) if "signature" in block.words]

    assert in_one_line(signature) in told
    assert function in anchors(path)


def test_no_function_is_there_that_does_not_exist() -> None:
    headings = re.findall(r"^### (pgqueue_\w+)$", page("docs/reference/sql-functions.md"), re.MULTILINE)

    assert sorted(headings) == FUNCTIONS


def settings_table() -> dict[str, str]:
    return dict(re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \|", page("docs/reference/settings.md"), re.MULTILINE))


def test_every_setting_is_there_with_its_default() -> None:
    told = {key: eval(default, {"timedelta": timedelta}) for key, default in settings_table().items()}

    assert told == DEFAULTS


def options(command: str) -> list[Action]:
    """The arguments of a command that not every command of Django has."""
    everywhere = {"--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color"}
    everywhere |= {"--force-color", "--skip-checks"}
    parser = load_command_class("django_pgqueue", command).create_parser("manage.py", command)
    return [action for action in parser._actions if not everywhere.intersection(action.option_strings)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_there_with_all_its_options(command: str) -> None:
    told = section(page("docs/reference/commands.md"), command)

    for action in options(command):
        for word in action.option_strings or action.choices or [action.dest]:
            assert f"`{word}" in told, f"{command} {word}"


def test_no_option_is_there_that_does_not_exist() -> None:
    for command in COMMANDS:
        told = set(re.findall(r"^\| `(--[\w-]+)", section(page("docs/reference/commands.md"), command), re.MULTILINE))

        assert told <= {word for action in options(command) for word in action.option_strings}, command


def pipeline_options(command: str) -> list[Action]:
    module = import_module(f"django_pgqueue.spark.{command}")
    parser = ArgumentParser(add_help=False)
    module.add_arguments(parser)
    return parser._actions


@pytest.mark.parametrize("command", sorted(PIPELINE))
def test_a_command_of_the_pipeline_is_there_with_all_its_options_and_no_others(command: str) -> None:
    there = {word for action in pipeline_options(command) for word in action.option_strings}
    told = section(page("docs/reference/pipeline.md"), command)
    also = re.search(r"^Also (.+?)\.(?: |$)", told, re.MULTILINE)[1]

    rows = re.findall(r"^\| `(--[\w-]+)", told, re.MULTILINE)
    assert sorted(there) == sorted(rows + re.findall(r"`(--[\w-]+)`", also))


def test_the_lines_for_pg_cron_are_those_that_the_command_prints() -> None:
    told = section(page("docs/how-to/production.md"), "Sweeping without a worker")
    out = StringIO()
    call_command("sweepqueue", "--print-cron", stdout=out)
    statements = out.getvalue().partition("SELECT")[2].replace(f"'{connection.settings_dict['NAME']}'", "'shop'")

    assert statements.strip() in told


def test_every_event_of_the_log_is_there() -> None:
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    logged = set(re.findall(r'"event": "([a-z_]+)"', sources))
    logged |= set(re.findall(r'"event": "[a-z_]+" if .+? else "([a-z_]+)"', sources))
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", page("docs/reference/logging.md"), re.MULTILINE)
    told = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}

    assert logged
    assert logged <= told


def test_every_check_is_there() -> None:
    sources = "".join(
        path.read_text() for path in [*(PACKAGE / "checks").glob("*.py"), PACKAGE / "tasks" / "checks.py"]
    )
    ids = set(re.findall(r'"(pgqueue\.[EW]\d+)"', sources))

    assert ids
    assert ids == set(re.findall(r"^\| `(pgqueue\.[EW]\d+)`", page("docs/reference/checks.md"), re.MULTILINE))


def test_every_finding_is_there() -> None:
    sources = "".join(path.read_text() for path in (PACKAGE / "doctor").glob("*.py"))
    codes = set(re.findall(r'Finding\(\s*"(\w+)"', sources)) | {"table_bloat", "index_bloat"}
    told = section(page("docs/reference/doctor.md"), "Findings")

    assert codes == set(re.findall(r"`([a-z_]+)`(?=[^|]*\| \w+ \| (?:note|warning|critical))", told))


def test_every_examination_can_be_asked_for_alone() -> None:
    told = section(page("docs/reference/commands.md"), "queuedoctor")
    [only] = re.findall(r"^\| `--only NAME` \| (.*)", told, re.MULTILINE)

    assert re.findall(r"`(\w+)`", only) == list(EXAMINATIONS)


def test_every_error_is_there_with_its_sqlstate() -> None:
    rows = re.findall(r"^\| `(PGQ\d\d)` \| `(\w+)` \|", page("docs/reference/errors.md"), re.MULTILINE)
    raised = {
        state for path in files.paths("functions") for state in re.findall(r"ERRCODE = '(PGQ\d\d)'", path.read_text())
    }

    assert dict(rows) == {state: error.__name__ for state, error in exceptions.BY_SQLSTATE.items()}
    assert raised <= {state for state, _ in rows}
    for error in vars(exceptions).values():
        if isinstance(error, type) and issubclass(error, exceptions.PgQueueError):
            assert f"`{error.__name__}`" in page("docs/reference/errors.md")


def stubs(path: str = "python-api.md") -> dict[str, ast.FunctionDef]:
    """The signatures of the Python API as its page tells them."""
    found = {}
    for block in blocks(DOCS / "reference" / path):
        if block.language == "pyi":
            for node in ast.parse(block.text).body:
                if isinstance(node, ast.FunctionDef):
                    found[node.name] = node
                elif isinstance(node, ast.ClassDef):
                    found[node.name] = next((item for item in node.body if isinstance(item, ast.FunctionDef)), node)
    return found


def told_parameters(node: ast.FunctionDef) -> list[tuple[str, bool, str | None]]:
    """Name, keyword only or not, and default of each parameter."""
    plain = [argument.arg for argument in node.args.args]
    defaults = [None] * (len(plain) - len(node.args.defaults)) + [ast.unparse(value) for value in node.args.defaults]
    told = [(parameter, False, default) for parameter, default in zip(plain, defaults, strict=True)]
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        told.append((argument.arg, True, None if default is None else ast.unparse(default)))
    return [parameter for parameter in told if parameter[0] != "self"]


def real_parameters(function: Any) -> list[tuple[str, bool, str | None]]:
    return [
        (
            parameter.name,
            parameter.kind is parameter.KEYWORD_ONLY,
            None if parameter.default is parameter.empty else repr(parameter.default),
        )
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]


@pytest.mark.parametrize("public", sorted(set(django_pgqueue.__all__) - {"aenqueue", "Delivery", "Enqueued"}))
def test_a_public_name_is_there_with_its_signature(public: str) -> None:
    assert told_parameters(stubs()[public]) == real_parameters(getattr(django_pgqueue, public))


def test_every_public_name_has_a_heading() -> None:
    headings = set(re.findall(r"^### (\w+)$", page("docs/reference/python-api.md"), re.MULTILINE))

    assert headings == set(django_pgqueue.__all__)


def test_every_helper_for_tests_is_there_with_its_signature() -> None:
    told = stubs("testing.md")
    headings = set(re.findall(r"^### (\w+)$", page("docs/reference/testing.md"), re.MULTILINE))

    assert headings == set(testing.__all__)
    for helper in told:
        given = [(*rest, "..." if default == "Ellipsis" else default) for *rest, default in parameters(helper)]
        assert told_parameters(told[helper]) == given, helper
    assert {helper for helper in headings if isfunction(getattr(testing, helper))} <= set(told)


def parameters(helper: str) -> list[tuple[str, bool, str | None]]:
    return real_parameters(getattr(testing, helper))


@pytest.mark.parametrize("value", ["Delivery", "Enqueued"])
def test_a_value_is_there_with_its_fields(value: str) -> None:
    told = section(page("docs/reference/python-api.md"), value)

    for field in inspect.signature(getattr(django_pgqueue, value)).parameters:
        assert f"`{field}`" in told


def test_every_outcome_is_public() -> None:
    kinds = {kind.__name__ for kind in outcomes.Outcome.__subclasses__()}

    assert kinds <= set(django_pgqueue.__all__)


def test_every_signal_is_there() -> None:
    sent = {name for name, value in vars(signals).items() if isinstance(value, Signal)}

    assert sent == set(re.findall(r"^\| `(message_\w+)` \|", page("docs/reference/signals.md"), re.MULTILINE))


def test_every_word_of_the_glossary_is_in_its_place() -> None:
    words = re.findall(r"^- \*\*(.+?)\*\*: ", page("docs/reference/glossary.md"), re.MULTILINE)

    assert words == sorted(words, key=str.lower)
    assert len(words) == page("docs/reference/glossary.md").count("\n- ")


@pytest.mark.django_db
def test_every_table_is_there_with_its_columns() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid"
            " WHERE c.relname LIKE 'pgqueue%' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            " AND a.attnum > 0 AND NOT a.attisdropped"
        )
        columns = cursor.fetchall()
    text = page("docs/reference/tables.md")

    assert {table for table, _ in columns} == {f"pgqueue_{table}" for table in TABLES}
    for table, column in columns:
        assert f"`{column}`" in section(text, table.removeprefix("pgqueue_")), f"{table}.{column}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_within_the_documentation_resolve(path: Path) -> None:
    for target in links(path):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), f"{name(path)} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{name(path)} links to {target}"


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=name)
def test_a_page_can_be_reached_from_the_index(path: Path) -> None:
    reached, left = set(), [DOCS / "index.md"]
    while left:
        reached.add(here := left.pop())
        targets = {(here.parent / target.partition("#")[0]).resolve() for target in links(here)}
        left += sorted(
            target
            for target in targets - reached
            if target.suffix == ".md" and DOCS in target.parents and target.exists()
        )

    assert path in reached


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_tests_that_are_named_exist(path: Path) -> None:
    for file, test in NAMED_TEST.findall(prose(path)):
        assert (REPOSITORY / file).exists(), file
        assert not test or f"def {test}(" in (REPOSITORY / file).read_text(), f"{file}::{test}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_modules_and_names_that_are_imported_exist(path: Path) -> None:
    for block in blocks(path):
        if block.language in ("python", "pycon"):
            for module, names in IMPORT.findall(block.text):
                for public in names.split(", "):
                    there = hasattr(import_module(module), public) or find_spec(f"{module}.{public}")
                    assert there, f"{name(path)}: {module}.{public}"


def test_the_listing_of_the_worker_is_the_real_one() -> None:
    [listing] = [
        block for block in blocks(DOCS / "explanation" / "architecture.md") if "\nfetch/\n" in f"\n{block.text}"
    ]
    told, folder = [], ""
    for line in listing.text.splitlines():
        indent, name, slash, words = re.match(r"( *)(\w*)(/?) *(.*)", line).groups()
        if slash:
            folder = f"{name}/"
        elif name:
            assert words, f"{name} says nothing"
            told.append(f"{folder if indent else ''}{name}.py")
    worker = PACKAGE / "worker"
    real = [path.relative_to(worker).as_posix() for path in worker.rglob("*.py") if path.name != "__init__.py"]
    assert sorted(told) == sorted(real)
