"""The command that chooses what a crash may lose. verification/chaos/test_unlogged.py tries what a crash then loses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, complete, dequeue, enqueue
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.sql import durability, roles
from tests.support.commands import output_of
from tests.support.markdown import page
from tests.support.sessions import Connect
from tests.support.sql import sql

LIVE = {
    f"pgqueue_{name}"
    for name in ("message", "arrival", "lane", "gate", "gate_side", "channel_size", "departure", "waiter")
}


def run(*arguments: object) -> str:
    return output_of("queuedurability", *arguments, skip_checks=True)


def unlogged() -> set[str]:
    """All tables and sequences of the queue that a crash empties."""
    found = sql(
        "SELECT relname FROM pg_class"
        " WHERE relname LIKE 'pgqueue%' AND relpersistence = 'u' AND relkind IN ('r', 'p', 'S')"
    )
    return {name for (name,) in found}


@pytest.mark.django_db
def test_without_an_option_it_says_what_is() -> None:
    output = run()
    assert "pgqueue_message: logged" in output.splitlines()
    assert "loses nothing that was committed" in output


@pytest.mark.parametrize("option", ["--unlogged", "--logged"])
@pytest.mark.django_db
def test_without_yes_it_only_says_what_it_would_do(option: str) -> None:
    if option == "--logged":
        run("--unlogged", "--yes")
    before = unlogged()
    output = run(option)
    assert unlogged() == before
    assert all(f"  {table}: " in output for table in LIVE)
    assert f"Nothing was changed. To do it: manage.py queuedurability {option} --yes" in output
    assert ("LOSES ALL LIVE MESSAGES" in output) == (option == "--unlogged")


@pytest.mark.django_db
def test_the_live_tables_and_nothing_else_become_unlogged_and_logged_again() -> None:
    output = run("--unlogged", "--yes")
    assert unlogged() == LIVE
    assert output.startswith("pgqueue_message: UNLOGGED, locked for 0.")
    assert output.count("locked for 0.") == len(LIVE)
    assert "LOSES ALL LIVE MESSAGES" in output
    assert "LOSES ALL LIVE MESSAGES" in run()
    assert run("--unlogged", "--yes") == "Nothing to do: the live tables are UNLOGGED.\n"
    output = run("--logged", "--yes")
    assert unlogged() == set()
    # The messages last: while they may be lost, so may what leads to them.
    assert output.splitlines()[-1].startswith("pgqueue_message: logged, locked for 0.")
    assert output.count("locked for 0.") == len(LIVE)
    assert run("--logged", "--yes") == "Nothing to do: the live tables are logged.\n"


@pytest.mark.django_db
def test_live_messages_and_ids_go_on_through_a_change_of_durability() -> None:
    channel_set(channel="small", max_size=2)
    first = enqueue("h", channel="small")
    [delivery] = dequeue()
    run("--unlogged", "--yes")
    second = enqueue("h", channel="small")
    assert second.id == first.id + 1
    complete([delivery])
    run("--logged", "--yes")
    assert enqueue("h", channel="small").id == first.id + 2
    assert [ArchivedMessage.objects.get().id, *Message.objects.order_by("id").values_list("id", flat=True)] == [
        first.id,
        second.id,
        first.id + 2,
    ]
    assert len(dequeue(limit=10)) == 2


@pytest.mark.django_db
def test_ids_that_would_be_given_twice_are_mended() -> None:
    """A table that was made UNLOGGED by hand, or a dump that was restored, has taken its sequence along."""
    sql("ALTER TABLE pgqueue_message SET UNLOGGED")
    assert durability.IDS in unlogged()
    run("--unlogged", "--yes")
    assert unlogged() == LIVE


@pytest.mark.django_db
def test_a_change_that_was_left_half_done_is_reported() -> None:
    sql("ALTER TABLE pgqueue_arrival SET UNLOGGED")
    with pytest.raises(CommandError, match=r"would wait for ever.*queuedurability --logged --yes"):
        run()
    assert run("--logged", "--yes").startswith("pgqueue_arrival: logged, locked for ")
    assert unlogged() == set()


@pytest.fixture
def used(connect: Connect) -> Iterator[Any]:
    """A transaction that has looked at the messages, and stays open."""
    session = connect(application_name="a report")
    session.execute("SELECT count(*) FROM pgqueue_message")
    yield session
    session.rollback()


def test_a_table_in_use_is_waited_for_a_while_and_its_user_is_named(used: Any) -> None:
    with pytest.raises(CommandError) as caught:
        run("--unlogged", "--yes", "--lock-timeout", "0.2")
    output = str(caught.value)
    assert output.startswith("pgqueue_message is not changed: canceling statement due to lock timeout.")
    assert f"by process {used.info.backend_pid} (a report, user " in output
    assert unlogged() == set()


@pytest.mark.django_db
def test_a_table_of_the_project_that_refers_to_messages_stops_it() -> None:
    sql("CREATE TABLE shop_order (message bigint REFERENCES pgqueue_message)")
    with pytest.raises(CommandError, match=r'^pgqueue_message is not changed: .*"shop_order"'):
        run("--unlogged", "--yes")
    assert unlogged() == set()


@pytest.mark.django_db
def test_a_role_that_does_not_own_the_tables_gets_an_error() -> None:
    sql("CREATE ROLE pgqueue_test_bystander; SET LOCAL ROLE pgqueue_test_bystander")
    with pytest.raises(CommandError, match="permission denied for table pgqueue_message"):
        run("--unlogged", "--yes")


@pytest.mark.django_db
def test_mistakes_are_one_clear_line() -> None:
    with pytest.raises(CommandError, match="--yes needs --unlogged or --logged"):
        run("--yes")
    with pytest.raises(CommandError, match="no database 'other'"):
        run("--database", "other")
    with pytest.raises(CommandError, match="0 is not a number of seconds"):
        run("--unlogged", "--lock-timeout", "0")
    sql("DROP TABLE pgqueue_message CASCADE")
    with pytest.raises(CommandError, match="has no table pgqueue_message"):
        run()


def test_it_is_decided_for_every_table() -> None:
    """A new table needs a thought: is it about live messages, and what if a crash empties it?"""
    decided = page("docs/explanation/decisions/unlogged-live-tables.md")
    assert {name for name in roles.queue_tables(pipeline=True) if f"`{name}`" not in decided} == set()
