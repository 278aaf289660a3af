from __future__ import annotations

import json
from io import StringIO
from itertools import pairwise

import pytest
from django.core.management import CommandError, call_command

from django_pgqueue import channel_release, channel_set, dead_letter, dequeue, enqueue
from django_pgqueue.management.cli import dead
from django_pgqueue.models import DeadLetter, Message
from tests.support.cases import cases
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db

# What chooses dead letters, and how many of the six.
FILTERED = [
    (["--reason", "refused"], 4),
    (["--handler", "h1"], 3),
    (["--channel", "blue", "--reason", "failed"], 1),
    (["--queue", "other"], 0),
    (["--all", "--limit", "2"], 2),
]


@pytest.fixture(autouse=True)
def letters() -> None:
    """Six dead letters: of two channels, two handlers, two reasons."""
    for name in ("red", "blue"):
        channel_set(channel=name)
    for reason, count in {"refused": 4, "failed": 2}.items():
        for number in range(count):
            enqueue(f"h{number % 2}", channel=("red", "blue")[number % 2])
        dead_letter(dequeue(limit=count), reason=reason)


def redrive(*arguments: object) -> str:
    return pgqueue("redrive dead", *arguments)


def delete(*arguments: object) -> str:
    return pgqueue("delete dead", *arguments)


def test_all_get_a_new_life_once() -> None:
    assert redrive("--all") == "6 redriven"
    assert set(Message.objects.values_list("redriven_from", flat=True)) == set(
        DeadLetter.objects.values_list("id", flat=True)
    )
    assert redrive("--all") == "0 redriven"
    assert "No dead letters." in pgqueue("dead")


@cases(("arguments", "count"), FILTERED)
def test_filters_choose(arguments: list[str], count: int) -> None:
    assert redrive(*arguments) == f"{count} redriven"
    assert Message.objects.count() == count


def test_a_dry_run_counts_and_changes_nothing() -> None:
    assert redrive("--all", "--dry-run").splitlines() == [
        "       1  failed  h0",
        "       1  failed  h1",
        "       2  refused  h0",
        "       2  refused  h1",
        "6 would be redriven",
    ]
    assert not Message.objects.exists()


def test_a_released_channel_is_named() -> None:
    channel_release(channel="blue")
    with pytest.raises(CommandError, match="redriven before that"):
        redrive("--all")


def test_a_rate_spreads_them() -> None:
    redrive("--all", "--rate", "1/10s")
    times = list(Message.objects.order_by("dequeue_at").values_list("dequeue_at", flat=True))
    assert {(later - before).total_seconds() for before, later in pairwise(times[1:])} == {10.0}
    assert Message.objects.filter(status=Message.Status.SCHEDULED).count() == len(times) - 1


def test_one_gets_another_payload() -> None:
    letter = DeadLetter.objects.order_by("id")[0]
    assert redrive(str(letter.pk), "--payload", '{"mended": true}') == "1 redriven"
    assert Message.objects.get().payload == {"mended": True}
    with pytest.raises(CommandError, match="exactly one id"):
        redrive("--all", "--payload", "1")


def test_an_id_that_is_not_redriven_is_reported() -> None:
    first, second = DeadLetter.objects.order_by("id").values_list("id", flat=True)[:2]
    redrive(first)
    with pytest.raises(CommandError, match=rf"^2 not redriven, no dead letters or redriven before: {first}, 999999$"):
        redrive(first, second, 999_999)
    assert Message.objects.filter(redriven_from=second).exists()
    assert redrive(first, second, "--reason", "refused") == "0 redriven"


def test_the_answer_may_be_json() -> None:
    answer = json.loads(redrive("--reason", "failed", "--dry-run", "--json"))
    assert (answer["version"], answer["matching"], answer["of"][0]) == (
        1,
        2,
        {"reason": "failed", "handler": "h0", "count": 1},
    )
    assert json.loads(redrive("--reason", "failed", "--json")) == {
        "version": 1, "action": "redrive", "dry_run": False, "redriven": 2
    }  # fmt: skip


@cases(("arguments", "count"), [(["--all"], 6), *FILTERED])
def test_filters_choose_what_is_deleted(arguments: list[str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead, "DELETED_LETTERS", 2)
    oldest_first = list(DeadLetter.objects.order_by("id").values_list("id", flat=True))
    assert delete(*arguments, "--dry-run").splitlines()[-1] == f"{count} would be deleted"
    assert delete(*arguments) == f"{count} deleted"
    left = list(DeadLetter.objects.order_by("id").values_list("id", flat=True))
    assert len(left) == 6 - count
    if "--limit" in arguments:
        assert left == oldest_first[count:]


@cases("arguments", [[], ["--limit", "2"], ["--all", "--queue", "default"], ["--all", "7"]])
def test_a_call_that_does_not_choose_dead_letters_is_refused(arguments: list[str]) -> None:
    for act in (redrive, delete):
        with pytest.raises(CommandError, match="Choose the dead letters"):
            act(*arguments)
    assert DeadLetter.objects.count() == 6


def test_redriven_dead_letters_stay() -> None:
    first, second = DeadLetter.objects.order_by("id")[:2]
    redrive(first.pk)
    assert delete("--all") == "5 deleted"
    assert DeadLetter.objects.get().pk == first.pk
    assert Message.objects.count() == 1
    output = StringIO()
    with pytest.raises(CommandError, match="Not all of them"):
        call_command("pgqueue", "delete", "dead", str(first.pk), str(second.pk), "--json", stdout=output)
    assert json.loads(output.getvalue())["left"] == {"not_found": 1, "redriven": 1}
