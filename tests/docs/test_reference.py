"""The reference is complete, and says what the code says."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser
from collections import defaultdict
from datetime import timedelta
from importlib import import_module
from io import StringIO

import pytest
from django.core.management import call_command, load_command_class
from django.db import connection

from django_pgqueue import exceptions
from django_pgqueue.conf import DEFAULTS
from django_pgqueue.doctor import CODES
from django_pgqueue.management.cli import verbs
from django_pgqueue.management.commands import pgqueue  # noqa: F401  (it registers the verbs)
from django_pgqueue.models import DeadLetter
from django_pgqueue.spark.cli import COMMANDS as PIPELINE
from django_pgqueue.sql import files
from django_pgqueue.sql.roles import client_kinds
from tests.support.markdown import DOCS, blocks, page, section
from tests.support.paths import REPOSITORY

PACKAGE = REPOSITORY / "django_pgqueue"
FUNCTIONS = sorted(files.latest_functions())
COMMANDS = sorted(
    path.stem for path in (PACKAGE / "management" / "commands").glob("[a-z]*.py") if path.stem != "pgqueue"
)
TABLES = [
    "queue", "channel", "message", "archived_message", "log", "dead_letter", "worker", "lane", "arrival", "floor",
    "gate", "gate_side", "channel_size", "departure", "waiter", "tally", "schedule", "schedule_tick", "lake",
    "queue_metric",
    "unarchived", "unarchived_total", "queue_warning", "pruned",
    "ingest", "ingest_stage", "activity", "backlog", "measurement",
    "limit", "limit_handler", "place", "spent", "meter", "breaker_outcome", "breaker_change", "order_note",
    "unique_key",
    "batch", "batch_member", "batch_lost", "batch_added", "batch_unsure", "progress", "step",
    "event", "event_unsure",
]  # fmt: skip

# An explanation begins with its code: a word after SELECT, or either word of a CASE.
CODE = re.compile(r"code := '(\w+)'|(?:THEN '(\w+)' ELSE )?'(\w+)'(?: END)?,\n +(?:format|CASE)")


def in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_the_functions_that_roles_may_run_are_there_with_their_signatures() -> None:
    """The others are internal: the header of its file describes each of them."""
    path = DOCS / "reference" / "sql-functions.md"
    on_page = {in_one_line(block.text) for block in blocks(path) if "signature" in block.words}
    granted = {f"pgqueue_{verb}" for kind in client_kinds(pipeline=True, flow=True).values() for verb in kind.verbs}
    newest = files.latest_functions()
    real = {}
    for function in granted:
        text = files.read_file("functions", function, newest[function])
        signature = re.search(r"^CREATE (?:FUNCTION|PROCEDURE) (.*?)^LANGUAGE", text, re.MULTILINE | re.DOTALL)[1]
        real[function] = in_one_line(signature)

    assert [function for function in real if real[function] not in on_page] == []
    assert set(re.findall(r"^### (pgqueue_\w+)$", page("docs/reference/sql-functions.md"), re.MULTILINE)) == granted


def test_every_code_of_an_explanation_is_there() -> None:
    text = page("docs/reference/sql-functions.md")
    documented = "".join(section(text, f"pgqueue_explain_{what}") for what in ("message", "channel"))
    functions = [name for name in FUNCTIONS if name.startswith("pgqueue_explain_")]
    sources = "".join(files.read_file("functions", name, files.latest_functions()[name]) for name in functions)
    codes = {code for pair in CODE.findall(sources) for code in pair if code}

    assert len(codes) > 30
    assert sorted(code for code in codes if f"`{code}`" not in documented) == []


def settings_table() -> dict[str, str]:
    return dict(re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \|", page("docs/reference/settings.md"), re.MULTILINE))


def test_every_setting_is_there_with_its_default() -> None:
    on_page = {key: eval(default, {"timedelta": timedelta}) for key, default in settings_table().items()}

    assert on_page == DEFAULTS


def options(command: str) -> list[Action]:
    """The arguments of a command that not every command of Django has."""
    everywhere = {"--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color"}
    everywhere |= {"--force-color", "--skip-checks"}
    parser = load_command_class("django_pgqueue", command).create_parser("manage.py", command)
    return [action for action in parser._actions if not everywhere.intersection(action.option_strings)]


def section_of(words: str) -> str:
    """Return the heading under which the page describes a verb."""
    first, _, thing = words.partition(" ")
    headings = {"pause": "pause and resume", "resume": "pause and resume", "revoke": "grant", "rights": "grant"}
    headings |= {"worker": "runqueueworker", "sweep": "sweepqueue"}
    by_verb = not thing or first in ("pause", "resume", "explain", "import", "plan")
    return headings.get(first, first) if by_verb else f"{thing}s".replace("deads", "dead")


def options_of_verbs() -> dict[str, set[str]]:
    """The options of the verbs of pgqueue, by the heading on the page."""
    found = defaultdict(set)
    for words, verb in verbs.VERBS.items():
        parser = ArgumentParser(add_help=False)
        for option in verb.options:
            option(parser)
        found[section_of(words)] |= {word for action in parser._actions for word in action.option_strings}
    return found


def test_every_verb_is_there_with_its_options_and_no_others() -> None:
    text = page("docs/reference/commands.md")
    shared = set(re.findall(r"`(--[\w-]+)", section(text, "pgqueue")))
    assert {"--json", "--dry-run", "--yes", "--database"} <= shared
    for heading, words in options_of_verbs().items():
        on_page = set(re.findall(r"`(--[\w-]+)", section(text, heading)))
        assert words <= on_page | shared, heading
        rows = set(re.findall(r"^\| `(--[\w-]+)", section(text, heading), re.MULTILINE))
        assert rows <= words | shared, heading


def test_every_command_is_there_with_all_its_options_and_no_others() -> None:
    for command in COMMANDS:
        on_page = section(page("docs/reference/commands.md"), command)
        for action in options(command):
            for word in action.option_strings or action.choices or [action.dest]:
                assert f"`{word}" in on_page, f"{command} {word}"
        rows = set(re.findall(r"^\| `(--[\w-]+)", on_page, re.MULTILINE))
        assert rows <= {word for action in options(command) for word in action.option_strings}, command


def pipeline_options(command: str) -> list[Action]:
    module = import_module(f"django_pgqueue.spark.{command}")
    parser = ArgumentParser(add_help=False)
    module.add_arguments(parser)
    return parser._actions


def test_every_command_of_the_pipeline_is_there_with_all_its_options_and_no_others() -> None:
    for command in PIPELINE:
        there = {word for action in pipeline_options(command) for word in action.option_strings}
        on_page = section(page("docs/reference/pipeline.md"), command)
        also = re.search(r"^Also (.+?)\.(?: |$)", on_page, re.MULTILINE)[1]
        rows = re.findall(r"^\| `(--[\w-]+)", on_page, re.MULTILINE)
        assert sorted(there) == sorted(rows + re.findall(r"`(--[\w-]+)`", also)), command


def test_the_lines_for_pg_cron_are_those_that_the_command_prints() -> None:
    on_page = section(page("docs/how-to/production.md"), "Maintenance without a worker")
    out = StringIO()
    call_command("sweepqueue", "--print-cron", stdout=out)
    statements = out.getvalue().partition("SELECT")[2].replace(f"'{connection.settings_dict['NAME']}'", "'shop'")

    assert statements.strip() in on_page


def test_every_event_of_the_log_is_there() -> None:
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    logged = set(re.findall(r'"event": "([a-z_]+)"', sources))
    logged |= set(re.findall(r'"event": "[a-z_]+" if .+? else "([a-z_]+)"', sources))
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", page("docs/reference/logging.md"), re.MULTILINE)
    on_page = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}

    assert logged
    assert logged <= on_page


def test_every_check_is_there() -> None:
    sources = "".join(
        path.read_text() for path in [*(PACKAGE / "checks").glob("*.py"), PACKAGE / "tasks" / "checks.py"]
    )
    ids = set(re.findall(r'"(pgqueue\.[EW]\d+)"', sources))

    assert ids
    assert ids == set(re.findall(r"^\| `(pgqueue\.[EW]\d+)`", page("docs/reference/checks.md"), re.MULTILINE))


def test_every_finding_is_there() -> None:
    codes = set().union(*CODES.values(), {"not_examined"})
    on_page = section(page("docs/reference/doctor.md"), "Findings")

    assert codes == set(re.findall(r"`([a-z_]+)`(?=[^|]*\| \w+ \| (?:note|warning|critical))", on_page))


def test_every_error_is_there_with_its_sqlstate() -> None:
    rows = re.findall(r"^\| `(PGQ\d\d)` \| `(\w+)` \|", page("docs/reference/errors.md"), re.MULTILINE)
    raised = {
        state
        for path in files.file_paths("functions")
        for state in re.findall(r"ERRCODE = '(PGQ\d\d)'", path.read_text())
    }

    assert dict(rows) == {state: error.__name__ for state, error in exceptions.BY_SQLSTATE.items()}
    assert raised <= {state for state, _ in rows}
    for error in vars(exceptions).values():
        if isinstance(error, type) and issubclass(error, exceptions.PgQueueError):
            assert f"`{error.__name__}`" in page("docs/reference/errors.md")


def test_every_reason_of_a_dead_letter_is_there() -> None:
    """The admin lists them, too."""
    text = DeadLetter._meta.get_field("reason").help_text.removesuffix(", or the handler's own word")
    reasons = set(re.findall(r"\w+", text))
    documented = section(page("docs/reference/errors.md"), "Reasons of dead letters")
    assert set(re.findall(r"^\| `(\w+)` \|", documented, re.MULTILINE)) == reasons
    code = "\n".join(path.read_text() for path in files.PACKAGE.rglob("*.py"))
    assert set(re.findall(r'\bReject\("(\w+)"', code)) <= reasons


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
