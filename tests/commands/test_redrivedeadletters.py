from __future__ import annotations

import json
from itertools import pairwise

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_release, channel_set, dead_letter, dequeue, enqueue
from django_pgqueue.models import DeadLetter, Message
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def letters() -> None:
    """Six dead letters: of two channels, two handlers, two reasons."""
    for name in ("red", "blue"):
        channel_set(channel=name)
    for reason, count in {"refused": 4, "failed": 2}.items():
        for number in range(count):
            enqueue(f"h{number % 2}", channel=("red", "blue")[number % 2])
        dead_letter(dequeue(limit=count), reason=reason)


def run(*arguments: object) -> str:
    return output_of("redrivedeadletters", *arguments)


def test_all_get_a_new_life_once() -> None:
    assert run() == "6 redriven\n"
    assert set(Message.objects.values_list("redriven_from", flat=True)) == set(
        DeadLetter.objects.values_list("id", flat=True)
    )
    assert run() == "0 redriven\n"


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--reason", "refused"], 4),
        (["--handler", "h1"], 3),
        (["--channel", "blue", "--reason", "failed"], 1),
        (["--queue", "other"], 0),
        (["--limit", "2"], 2),
    ],
    ids=str,
)
def test_filters_choose(arguments: list[str], count: int) -> None:
    assert run(*arguments) == f"{count} redriven\n"
    assert Message.objects.count() == count


def test_the_limit_takes_the_oldest() -> None:
    run("--limit", "2")
    redriven = Message.objects.values_list("redriven_from", flat=True)
    assert sorted(redriven) == list(DeadLetter.objects.order_by("id").values_list("id", flat=True)[:2])


def test_a_dry_run_counts_and_changes_nothing() -> None:
    assert run("--dry-run").splitlines() == [
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
        run()


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(CommandError, match="not at least 1"):
        run("--limit", "0")


def test_a_rate_spreads_them() -> None:
    run("--rate", "0.1")
    times = list(Message.objects.order_by("dequeue_at").values_list("dequeue_at", flat=True))
    assert {(later - before).total_seconds() for before, later in pairwise(times[1:])} == {10.0}
    assert Message.objects.filter(status=Message.Status.SCHEDULED).count() == len(times) - 1


def test_one_gets_another_payload() -> None:
    letter = DeadLetter.objects.order_by("id")[0]
    assert run(str(letter.pk), "--payload", '{"mended": true}') == "1 redriven\n"
    assert Message.objects.get().payload == {"mended": True}
    with pytest.raises(CommandError, match="exactly one id"):
        run("--payload", "1")


def test_an_id_that_is_not_redriven_is_reported() -> None:
    first, second = DeadLetter.objects.order_by("id").values_list("id", flat=True)[:2]
    run(first)
    with pytest.raises(CommandError, match=rf"^2 not redriven, no dead letters or redriven before: {first}, 999999$"):
        run(first, second, 999_999)
    assert Message.objects.filter(redriven_from=second).exists()
    assert run(first, second, "--reason", "refused") == "0 redriven\n"


def test_the_answer_may_be_json() -> None:
    answer = json.loads(run("--reason", "failed", "--dry-run", "--format", "json"))
    assert (answer["version"], answer["matching"], answer["of"][0]) == (
        1,
        2,
        {"reason": "failed", "handler": "h0", "count": 1},
    )
    assert json.loads(run("--reason", "failed", "--format", "json")) == {"version": 1, "dry_run": False, "redriven": 2}
