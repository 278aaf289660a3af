from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import CommandError

from django_pgqueue.sql import payload_index
from tests.support.commands import output_of
from tests.support.sql import sql

pytestmark = pytest.mark.django_db(transaction=True)

LATER = "pgqueue_archived_message_20990101"


@pytest.fixture(autouse=True)
def _dropped_afterwards() -> Iterator[None]:
    yield
    run(*payload_index.TABLES, "--drop")
    sql(f"DROP TABLE IF EXISTS {LATER}")


def run(*arguments: object) -> str:
    return output_of("queuepayloadindex", *arguments)


@pytest.mark.parametrize("table", payload_index.TABLES)
def test_an_index_is_made_and_removed(table: str) -> None:
    assert not payload_index.is_usable(table, "default")
    assert run(table).endswith(f"{table}: payloads can be searched now.\n")
    assert payload_index.is_usable(table, "default")
    run(table, "--drop")
    assert not payload_index.is_usable(table, "default")
    assert sql("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%payload%'") == []


def test_nothing_is_locked_for_long() -> None:
    """A statement that builds is CONCURRENTLY; any other gives up soon."""
    patient = True
    for line in run(*payload_index.TABLES).splitlines():
        patient = line.startswith("RESET") or (patient and not line.startswith("SET"))
        if "INDEX" in line:
            assert ("CONCURRENTLY" in line) == patient, line
    assert sql("SHOW lock_timeout") == [("0",)]


def test_a_half_built_index_is_built_again() -> None:
    run("message", "archived_message")
    [[partition]] = sql("SELECT min(c.relname) FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid"
                        " WHERE inhparent = 'pgqueue_archived_message'::regclass")  # fmt: skip
    sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'pgqueue_message_payload'::regclass")
    run("archived_message", "--drop")
    sql("CREATE INDEX pgqueue_archived_message_payload ON ONLY pgqueue_archived_message"
        " USING gin (payload jsonb_path_ops)")  # fmt: skip
    sql(f"CREATE INDEX {partition}_payload ON {partition} USING gin (payload jsonb_path_ops)")
    sql(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{partition}_payload'::regclass")
    assert not any(payload_index.is_usable(table, "default") for table in payload_index.TABLES)
    run("message", "archived_message")
    assert payload_index.is_usable("message", "default")
    assert payload_index.is_usable("archived_message", "default")


def test_a_second_time_there_is_nothing_to_do() -> None:
    run("message", "archived_message")
    assert "CONCURRENTLY" not in run("message", "archived_message")


def test_partitions_that_come_later_bring_their_index_along() -> None:
    run("archived_message")
    sql(f"CREATE TABLE {LATER} (LIKE pgqueue_archived_message INCLUDING ALL)")
    bounds = "FOR VALUES FROM ('2099-01-01') TO ('2099-01-02')"
    sql(f"ALTER TABLE pgqueue_archived_message ATTACH PARTITION {LATER} {bounds}")
    assert payload_index.is_usable("archived_message", "default")
    assert "CONCURRENTLY" not in run("archived_message")


def test_a_transaction_around_it_is_refused() -> None:
    from django.db import transaction

    with transaction.atomic(), pytest.raises(CommandError, match="inside of a transaction"):
        run("message")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["channel"], "invalid choice"),
        ([], "required"),
        (["message", "--database", "elsewhere"], "There is no database"),
    ],
)
def test_impossible_index_changes_are_refused_in_words(arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(*arguments)
