"""Limits that code declares, and how the database follows them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command

from django_pgqueue import Limit, dequeue, enqueue, handler, handlers, limit_pause, limit_resume, limit_set
from django_pgqueue import limits as declarations
from django_pgqueue.checks import declared as checks
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.limits import UNDECLARED
from django_pgqueue.maintenance.declared_limits import LimitCounts, sync_limits
from django_pgqueue.maintenance.scheduler import Scheduler
from django_pgqueue.models import SharedLimit
from tests.support.cases import cases
from tests.support.sql import sql

NOTHING = LimitCounts(added=0, changed=0, undeclared=0)


@pytest.fixture(autouse=True)
def _no_limits(_as_before: None) -> Iterator[None]:
    before = dict(declarations._declared)
    declarations._declared.clear()
    SharedLimit.objects.all().delete()
    yield
    declarations._declared.clear()
    declarations._declared.update(before)


def forget(*names: str) -> None:
    """As if the code were gone."""
    for name in names:
        declarations._declared.pop(name)


def handle(name: str, *limits: Any) -> None:
    handlers.unregister(name)
    handler(name, limits=limits)(lambda delivery: None)


def handlers_of(name: str) -> list[str]:
    rows = sql(
        "SELECT h.handler FROM pgqueue_limit_handler AS h JOIN pgqueue_limit AS l ON l.id = h.limit_id "
        "WHERE l.name = %s ORDER BY 1",
        name,
    )
    return [found for (found,) in rows]


def state(name: str = "stripe") -> tuple[Any, ...]:
    limit = SharedLimit.objects.get(name=name)
    return limit.max_concurrency, limit.max_cost, limit.release_interval, limit.release_burst


def test_a_declared_limit_becomes_a_row_and_then_nothing_changes():
    Limit("stripe", max_concurrency=20, rate="100/s burst 50")
    Limit("tokens", max_cost=1000, release_interval=timedelta(seconds=2))
    assert sync_limits() == LimitCounts(added=2, changed=0, undeclared=0)
    assert state() == (20, None, timedelta(milliseconds=10), 50)
    assert state("tokens") == (None, 1000, timedelta(seconds=2), 1)
    assert sync_limits() == NOTHING


def test_a_change_in_code_is_taken_over_and_overwrites_an_edit_but_no_pause():
    Limit("stripe", max_concurrency=20)
    sync_limits()
    limit_pause("stripe", reason="down")
    SharedLimit.objects.update(max_concurrency=3)
    assert sync_limits() == LimitCounts(added=0, changed=1, undeclared=0)
    forget("stripe")
    Limit("stripe", rate="1/s")
    assert sync_limits() == LimitCounts(added=0, changed=1, undeclared=0)
    assert state() == (None, None, timedelta(seconds=1), 1)
    assert SharedLimit.objects.get().pause_reason == "down"


def test_the_setting_declares_too_and_wins_over_code(settings):
    Limit("stripe", max_concurrency=20)
    settings.DJANGO_PGQUEUE = {"LIMITS": {"stripe": {"max_concurrency": 2}, "openai": {"rate": "10/m burst 3"}}}
    assert sync_limits() == LimitCounts(added=2, changed=0, undeclared=0)
    assert state() == (2, None, None, 1)
    assert state("openai") == (None, None, timedelta(seconds=6), 3)


def test_the_handlers_that_name_a_limit_bring_it_to_every_message():
    """Also to a row that SQL has inserted, without a word of it."""
    stripe = Limit("stripe", max_concurrency=1)
    handle("charge", "stripe")
    handle("refund", stripe)
    sync_limits()
    assert handlers_of("stripe") == ["charge", "refund"]
    sql("""INSERT INTO pgqueue_message (channel_id, handler, payload)
        SELECT c.id, h, '{}' FROM pgqueue_channel AS c, unnest(ARRAY['charge', 'refund', 'charge']) AS h
        WHERE c.queue = 'default' AND c.name = 'default' RETURNING id""")
    assert len(dequeue(limit=10)) == 1


def test_a_handler_that_names_it_no_more_is_taken_out_and_one_of_another_process_stays():
    Limit("stripe", max_concurrency=1)
    handle("charge", "stripe")
    handle("refund", "stripe")
    sync_limits()
    limit_set("stripe", handlers=["charge", "refund", "elsewhere"])
    handle("refund")
    assert sync_limits() == LimitCounts(added=0, changed=1, undeclared=0)
    assert handlers_of("stripe") == ["charge", "elsewhere"]
    assert sync_limits() == NOTHING


def test_a_limit_that_is_no_longer_declared_stays():
    Limit("stripe", max_concurrency=1)
    sync_limits()
    forget("stripe")
    assert sync_limits() == NOTHING
    assert state() == (1, None, None, 1)


def test_a_limit_that_a_handler_names_and_that_is_not_declared_is_made_paused(caplog):
    handle("charge", "stripe")
    with caplog.at_level(logging.ERROR, "django_pgqueue"):
        assert sync_limits() == LimitCounts(added=1, changed=0, undeclared=1)
        assert sync_limits() == LimitCounts(added=0, changed=0, undeclared=1)
    assert [record.event for record in caplog.records] == ["limit_undeclared"] * 2
    assert "no limit is called 'stripe', so the messages of charge wait. Declare Limit('stripe', …)" in caplog.text
    assert SharedLimit.objects.get().pause_reason == UNDECLARED
    enqueue("charge")
    assert dequeue(limit=10) == []

    Limit("stripe", max_concurrency=1)
    assert sync_limits() == LimitCounts(added=0, changed=1, undeclared=0)
    assert SharedLimit.objects.get().paused_at is None
    assert len(dequeue(limit=10)) == 1


def test_a_limit_that_was_made_in_the_admin_needs_no_declaration(caplog):
    limit_set("stripe", max_concurrency=1)
    handle("charge", "stripe")
    assert sync_limits() == LimitCounts(added=0, changed=1, undeclared=0)
    assert handlers_of("stripe") == ["charge"]
    handle("refund", "paypal")
    sync_limits()
    limit_resume("paypal")
    caplog.clear()
    assert sync_limits() == NOTHING
    assert "paypal" not in caplog.text


def test_a_wrong_limit_of_the_setting_is_logged_and_stops_no_other(settings, caplog):
    settings.DJANGO_PGQUEUE = {"LIMITS": {"openai": {"rate": "often"}, "stripe": {"max_concurrency": 2}}}
    with caplog.at_level(logging.ERROR, "django_pgqueue"):
        assert sync_limits() == LimitCounts(added=1, changed=0, undeclared=0)
    assert "a limit of LIMITS is left out: the limit 'openai': rate is 'often'" in caplog.text


def test_the_first_run_of_a_worker_and_a_migration_write_them():
    Limit("stripe", max_concurrency=1)
    Scheduler().run_once("default")
    assert state() == (1, None, None, 1)
    SharedLimit.objects.all().delete()
    call_command("migrate", verbosity=0)
    assert state() == (1, None, None, 1)


@cases(
    ("given", "text"),
    [
        ({"max_concurrency": 0}, "max_concurrency is 0"),
        ({"max_concurrency": "3"}, "max_concurrency is not an integer but str"),
        ({"max_cost": True}, "max_cost is not an integer but bool"),
        ({"release_burst": 2**31}, "release_burst is 2147483648"),
        ({"release_interval": 5}, "release_interval is not a timedelta but int"),
        ({"release_interval": timedelta(0)}, "release_interval is 0:00:00"),
        ({"rate": "often"}, "which is no rate"),
        ({"rate": "1/s", "release_burst": 5}, "rate stands for"),
    ],
)
def test_a_wrong_declaration_is_refused(given: dict[str, Any], text: str):
    with pytest.raises(InvalidMessage, match=text):
        Limit("stripe", **given)
    assert declarations._declared == {}


@cases("name", ["", "x" * 201, "a\0b", 5, None])
def test_a_wrong_name_is_refused(name: Any):
    with pytest.raises(InvalidMessage):
        Limit(name)


def test_two_declarations_of_a_name_must_agree():
    Limit("stripe", max_concurrency=1)
    Limit("stripe", max_concurrency=1)
    with pytest.raises(InvalidMessage, match="two limits are called 'stripe', and they differ"):
        Limit("stripe", max_concurrency=2)


def ids(messages: list[Any]) -> list[str | None]:
    return [message.id for message in messages]


def test_the_checks_find_limits_that_are_not_declared_and_what_the_setting_has_wrong(settings):
    handle("charge", "stripe")
    [warning] = checks.check_declarations()
    assert warning.id == "pgqueue.W022"
    assert "'stripe' is not declared, and these handlers name it: charge" in warning.msg
    assert "Limit('stripe', max_concurrency=…)" in warning.hint
    assert ids(checks.limit_messages("default")) == ["pgqueue.E025"]
    sync_limits()
    assert ids(checks.limit_messages("default")) == ["pgqueue.E025"], "it is there, but only made paused"
    limit_resume("stripe")
    assert checks.limit_messages("default") == []
    SharedLimit.objects.all().delete()
    Limit("stripe")
    assert checks.limit_messages("default") == checks.check_declarations() == []
    settings.DJANGO_PGQUEUE = {"LIMITS": {"openai": {"rates": "1/s"}, "x": {"max_cost": 0}}}
    first, second = checks.check_declarations()
    assert (first.id, second.id) == ("pgqueue.E024", "pgqueue.E024")
    assert "LIMITS['openai'] has unknown options: rates" in first.msg
    assert "max_cost is 0" in second.msg


def test_a_limit_for_each_channel_is_written_and_changed_like_any_other() -> None:
    Limit("mails", rate="10/m", per="channel")
    handle("declared.mail", "mails")
    assert sync_limits() == LimitCounts(added=1, changed=0, undeclared=0)
    assert SharedLimit.objects.get(name="mails").per == "channel"
    assert sync_limits() == NOTHING
    forget("mails")
    Limit("mails", rate="10/m")
    assert sync_limits() == LimitCounts(added=0, changed=1, undeclared=0)
    assert SharedLimit.objects.get(name="mails").per is None
    handlers.unregister("declared.mail")


def test_a_limit_is_for_each_channel_or_for_all() -> None:
    with pytest.raises(InvalidMessage, match="per is 'handler'"):
        Limit("mails", per="handler")  # type: ignore[arg-type]
