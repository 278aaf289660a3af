from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, dequeue, enqueue, limit_set
from django_pgqueue.models import SharedLimit
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default")


def run(*arguments: object) -> str:
    return output_of("queuelimit", *arguments).strip()


def test_a_limit_is_made_changed_and_lifted_and_holds_at_once() -> None:
    assert run("set", "stripe", "--max-concurrency", 2, "--handler", "h", "--handler", "mail") == (
        "stripe: max_concurrency - → 2, handlers - → h, mail"
    )
    for _ in range(3):
        enqueue("h")
    assert len(dequeue(limit=5)) == 2
    text = run("set", "stripe", "--max-concurrency", "none", "--max-cost", 50, "--handler", "none")
    assert text == "stripe: max_concurrency 2 → None, max_cost None → 50, handlers h, mail → none"
    limit = SharedLimit.objects.get()
    assert (limit.max_concurrency, limit.max_cost) == (None, 50)


def test_a_rate_is_set_and_lifted() -> None:
    text = run("set", "stripe", "--rate", "5/s burst 20")
    assert text == "stripe: release_interval - → 0:00:00.200000, release_burst - → 20"
    run("set", "stripe", "--rate", "none")
    limit = SharedLimit.objects.get()
    assert (limit.release_interval, limit.release_burst) == (None, 1)
    run("set", "stripe", "--release-interval", "0.5", "--release-burst", 3)
    limit = SharedLimit.objects.get()
    assert (limit.release_interval, limit.release_burst) == (timedelta(seconds=0.5), 3)
    with pytest.raises(CommandError, match="which is no rate"):
        run("set", "stripe", "--rate", "often")
    with pytest.raises(CommandError, match="give --rate, or those two"):
        run("set", "stripe", "--rate", "5/s", "--release-burst", 3)


def test_a_dry_run_changes_nothing() -> None:
    told = json.loads(run("set", "stripe", "--max-cost", 5, "--dry-run", "--format", "json"))
    assert told == {
        "version": 1, "action": "set", "limit": "stripe", "dry_run": True, "before": None, "after": {"max_cost": 5},
    }  # fmt: skip
    assert not SharedLimit.objects.exists()
    limit_set("stripe")
    assert run("drop", "stripe", "--dry-run") == "stripe would be dropped."
    assert SharedLimit.objects.exists()


def test_a_limit_is_dropped() -> None:
    limit_set("stripe")
    assert run("drop", "stripe") == "stripe is dropped."
    assert not SharedLimit.objects.exists()
    for arguments in (("drop", "stripe"), ("drop", "stripe", "--dry-run")):
        with pytest.raises(CommandError, match="There is no limit 'stripe'"):
            run(*arguments)


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(CommandError, match="at least one setting"):
        run("set", "stripe")
    with pytest.raises(CommandError, match="drop takes no settings"):
        run("drop", "stripe", "--max-cost", 5)
    with pytest.raises(CommandError, match="max-concurrency"):
        run("set", "stripe", "--max-concurrency", 0)
    with pytest.raises(CommandError, match="1 to 200 characters"):
        run("set", "x" * 201, "--max-cost", 5)
