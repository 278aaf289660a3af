from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set
from django_pgqueue.models import Queue
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default")


def run(*arguments: object) -> str:
    return output_of("queueset", *arguments).strip()


def test_it_says_what_was_and_what_is() -> None:
    assert run("default", "--archive", "outcome") == "default: archive full → outcome"
    assert run("default", "--archive", "none") == "default: archive outcome → none"
    assert Queue.objects.get().archive == "none"


def test_a_dry_run_changes_nothing() -> None:
    answer = json.loads(run("default", "--archive", "none", "--dry-run", "--format", "json"))
    assert answer == {
        "version": 1, "action": "set", "queue": "default", "before": {"archive": "full"},
        "after": {"archive": "none"}, "dry_run": True,
    }  # fmt: skip
    assert not Queue.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["default"], "Give a setting"),
        (["default", "--archive", "some"], "invalid choice"),
        (["nowhere", "--archive", "none"], "does not exist"),
        (["nowhere", "--archive", "none", "--dry-run"], "There is no queue"),
    ],
)
def test_invalid_settings_are_an_error_and_create_no_queue(arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(*arguments)
    assert not Queue.objects.exists()


def test_limits_and_their_end() -> None:
    given = ["--max-concurrency", "20", "--rate", "100/s burst 50", "--fairness", "share", "--max-share", "0.75"]
    assert run("default", *given) == (
        "default: max_concurrency None → 20, rate None → 100/s burst 50, fairness turns → share, max_share None → 0.75"
    )
    queue = Queue.objects.get()
    assert (queue.max_concurrency, queue.release_interval, queue.release_burst) == (20, timedelta(seconds=0.01), 50)
    assert (queue.fairness, float(queue.max_share)) == ("share", 0.75)
    assert run("default", "--max-concurrency", "none", "--rate", "none", "--max-share", "none") == (
        "default: max_concurrency 20 → None, rate 1 per 0:00:00.010000 burst 50 → None, max_share 0.75000 → None"
    )
    queue.refresh_from_db()
    assert (queue.max_concurrency, queue.release_interval, queue.max_share) == (None, None, None)
    assert queue.release_burst == 1


def test_retention_takes_days_or_none() -> None:
    assert run("default", "--retention", "7", "--dead-letter-retention", "0.5") == (
        "default: retention None → 7 days, 0:00:00, dead_letter_retention None → 12:00:00"
    )
    assert Queue.objects.get().retention == timedelta(days=7)
    assert run("default", "--retention", "none") == "default: retention 7 days, 0:00:00 → None"
    assert Queue.objects.get().retention is None
    for wrong in ("0", "-1", "soon"):
        with pytest.raises(CommandError, match="retention"):
            run("default", "--retention", wrong)
    with pytest.raises(CommandError, match="Give a setting"):
        run("default")


@pytest.mark.parametrize("part", ["nan", "inf"])
def test_a_share_that_is_no_number_is_refused(part: str) -> None:
    with pytest.raises(CommandError, match=f"max_share takes a number or None, not {part}"):
        run("default", "--max-share", part)
