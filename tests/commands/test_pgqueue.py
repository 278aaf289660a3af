"""What all verbs of the command share: help, options, questions, colours, errors and exit statuses."""

from __future__ import annotations

import re
import shlex
from contextlib import nullcontext
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_pgqueue import channel_set, enqueue
from django_pgqueue.limits import parse_rate, rate_text
from django_pgqueue.management.cli.options import duration, duration_or_zero
from django_pgqueue.management.cli.verbs import VERBS
from django_pgqueue.management.commands.pgqueue import Command
from django_pgqueue.models import Message
from tests.support.cases import cases
from tests.support.commands import manage, pgqueue


class Terminal(StringIO):
    """An output, or an input, that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def _waiting(db: None) -> None:
    channel_set(channel="default")
    enqueue("h")


@pytest.mark.usefixtures("_waiting")
def test_without_a_verb_it_shows_them_and_how_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("pgqueue")
    shown = capsys.readouterr().out
    assert {words.split()[0] for words in VERBS} <= set(re.findall(r"^    (\w+) ", shown, re.MULTILINE))
    assert "  3  the database cannot be asked" in shown


@cases("words", VERBS)
def test_the_help_of_a_verb_has_an_example_that_it_understands(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("pgqueue", *words.split(), "--help")
    example = re.search(r"example:\n  manage\.py pgqueue (.*)", capsys.readouterr().out)[1]
    if words != "lake":
        Command().create_parser("manage.py", "pgqueue").parse_args(shlex.split(example))


@pytest.mark.usefixtures("_waiting")
def test_the_options_of_django_are_taken_after_the_verb_too(environment: dict[str, str]) -> None:
    shown = manage("pgqueue", "queues", "--skip-checks", "--traceback", "--no-color", "-v0", **environment)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_the_exit_status_says_who_is_to_blame(db: None, environment: dict[str, str]) -> None:
    for words, status, text in (
        ("stats", 0, "queue"),
        ("drop limit nobody", 1, "There is no limit nobody. pgqueue limits lists what there is."),
        ("pause", 2, "the following arguments are required: {queue,channel,handler,limit,worker}"),
        ("pause qeue mails", 2, "invalid choice: 'qeue' (choose from"),
        ("stats --database elsewhere", 3, "There is no database 'elsewhere' in DATABASES. Choose one of default"),
    ):
        ended = manage("pgqueue", *words.split(), **environment)
        assert (ended.returncode, text in ended.stdout + ended.stderr) == (status, True), ended


def test_a_database_that_does_not_answer_is_status_3(django_db_blocker: Any) -> None:
    connections.settings["nowhere"] = {**connections.settings["default"], "PORT": "1", "HOST": "127.0.0.1"}
    try:
        with django_db_blocker.unblock(), pytest.raises(CommandError, match="'nowhere' refuses") as raised:
            pgqueue("messages --database nowhere")
    finally:
        del connections["nowhere"]
        del connections.settings["nowhere"]
    assert raised.value.returncode == 3


@pytest.mark.usefixtures("_waiting")
@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("", 1), ("y", 0)])
def test_on_a_terminal_it_shows_what_it_would_take_away_and_asks(
    answer: str, left: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    output = StringIO()
    refused = pytest.raises(CommandError, match=r"Nothing was changed\.") if left else nullcontext()
    with refused:
        call_command("pgqueue", "purge", "queue", "default", stdout=output)
    assert output.getvalue().startswith("1 would be purged\n")
    assert Message.objects.count() == left


@pytest.mark.usefixtures("_waiting")
@pytest.mark.parametrize("option", ["--yes", "--json"])
def test_it_does_not_ask_with_yes_or_for_programs(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    pgqueue("purge queue default", option)
    assert Message.objects.count() == 0


@pytest.mark.usefixtures("_waiting")
def test_a_terminal_has_colours_and_a_file_has_none() -> None:
    assert "\x1b[" not in pgqueue("messages")
    assert "\x1b[" in pgqueue("messages", force_color=True)
    terminal = Terminal()
    call_command("pgqueue", "messages", stdout=terminal, no_color=True)
    assert "\x1b[" not in terminal.getvalue()


@pytest.mark.django_db(transaction=True)
def test_the_worker_and_the_sweep_are_verbs_too(environment: dict[str, str]) -> None:
    ended = manage("pgqueue", "worker", "--processes", "0", "--drain", **environment)
    assert ended.returncode == 0, ended.stderr
    assert "worker" in ended.stderr
    assert pgqueue("sweep").startswith("sweep: 0 retried, ")


def test_durations_have_units() -> None:
    for text, seconds in {"90": 90, "1.5s": 1.5, "15m": 900, "2h": 7200, "7d": 604_800}.items():
        assert duration(text) == timedelta(seconds=seconds)
    assert duration_or_zero("0") == timedelta(0)
    for text, problem in {
        "0": "not more than zero",
        "soon": "not a duration",
        "-5": "not a duration",
        "9999d": "ten years",
    }.items():
        with pytest.raises(Exception, match=problem):
            duration(text)


@cases("text", ["10/m", "1/30s", "5/s burst 20", "1000/s", "1/h", "1/2d", "7/m"])
def test_a_rate_is_shown_as_it_was_given(text: str) -> None:
    assert rate_text(*parse_rate(text)) == {"1/30s": "2/m"}.get(text, text)
