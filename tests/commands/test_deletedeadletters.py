from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_pgqueue.management.commands import deletedeadletters
from django_pgqueue.models import DeadLetter, Message
from tests.commands.test_redrivedeadletters import letters  # noqa: F401  (a fixture, used by all)
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


def run(*arguments: object) -> str:
    return output_of("deletedeadletters", *arguments)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--all"], 6),
        (["--reason", "refused"], 4),
        (["--handler", "h1"], 3),
        (["--channel", "blue", "--reason", "failed"], 1),
        (["--queue", "other"], 0),
        (["--all", "--limit", "2"], 2),
    ],
    ids=str,
)
def test_filters_choose(arguments: list[str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletedeadletters, "BATCH_LETTERS", 2)
    oldest_first = list(DeadLetter.objects.order_by("id").values_list("id", flat=True))
    assert run(*arguments, "--dry-run").splitlines()[-1] == f"{count} would be deleted"
    assert run(*arguments) == f"{count} deleted\n"
    left = list(DeadLetter.objects.order_by("id").values_list("id", flat=True))
    assert len(left) == 6 - count
    if "--limit" in arguments:
        assert left == oldest_first[count:]


def test_a_dry_run_counts_and_changes_nothing() -> None:
    assert run("--reason", "refused", "--dry-run").splitlines() == [
        "       2  refused  h0",
        "       2  refused  h1",
        "4 would be deleted",
    ]
    assert DeadLetter.objects.count() == 6


@pytest.mark.parametrize("arguments", [[], ["--limit", "2"], ["--all", "--queue", "default"], ["--all", "7"]])
def test_a_call_that_does_not_choose_dead_letters_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="Choose the dead letters"):
        run(*arguments)
    assert DeadLetter.objects.count() == 6


def test_redriven_dead_letters_stay() -> None:
    first, second = DeadLetter.objects.order_by("id")[:2]
    call_command("redrivedeadletters", str(first.pk), stdout=StringIO())
    assert run("--all") == "5 deleted\n"
    assert DeadLetter.objects.get().pk == first.pk
    assert Message.objects.count() == 1
    output = StringIO()
    with pytest.raises(CommandError, match="Not all of them"):
        call_command("deletedeadletters", str(first.pk), str(second.pk), "--format", "json", stdout=output)
    answer = {"version": 1, "dry_run": False, "deleted": 0, "left": {"not_found": 1, "redriven": 1}}
    assert json.loads(output.getvalue()) == answer


def test_the_answer_may_be_json() -> None:
    answer = json.loads(run("--reason", "failed", "--dry-run", "--format", "json"))
    assert (answer["dry_run"], answer["matching"], len(answer["of"])) == (True, 2, 2)
    done = {"version": 1, "dry_run": False, "deleted": 2, "left": {}}
    assert json.loads(run("--reason", "failed", "--format", "json")) == done
