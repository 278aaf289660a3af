"""A baseline that does not work would be easy to beat."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.sql import sql

BASELINES = Path(__file__).parent / "baselines"
PAYLOAD = '{"n": 1}'

pytestmark = pytest.mark.django_db


@pytest.fixture
def raw_floor() -> None:
    sql((BASELINES / "raw_floor.sql").read_text())


@pytest.fixture
def channels() -> Callable[..., None]:
    sql((BASELINES / "channel_row.sql").read_text())

    def create(*names: str, max_concurrency: int | None = None, max_size: int | None = None) -> None:
        for name in names:
            sql(
                "INSERT INTO row_channel (name, max_concurrency, max_size) VALUES (%s, %s, %s)",
                name,
                max_concurrency,
                max_size,
            )

    return create


def enqueue(channel: str) -> int | None:
    return sql("SELECT row_enqueue(%s, %s)", channel, PAYLOAD)[0][0]


def dequeue() -> tuple[Any, ...] | None:
    return next(iter(sql("SELECT id, lease_token FROM row_dequeue('1 minute')")), None)


def complete(message: tuple[Any, ...] | None) -> bool:
    assert message is not None
    return sql("SELECT row_complete(%s, %s)", *message)[0][0]


@pytest.mark.usefixtures("raw_floor")
def test_the_raw_floor_gives_each_message_once_and_in_order() -> None:
    ids = [sql("SELECT raw_enqueue(%s)", PAYLOAD)[0][0] for _ in range(5)]
    taken = [row[0] for _ in range(3) for row in sql("SELECT id FROM raw_dequeue(2)")]
    assert sorted(taken[:2]) + sorted(taken[2:4]) + taken[4:] == ids


def test_channel_rows_are_served_round_robin(channels: Callable[..., None]) -> None:
    channels("a", "b")
    ids = [enqueue(channel) for channel in "aaab"]
    assert [message[0] for _ in range(4) if (message := dequeue())] == [ids[0], ids[3], ids[1], ids[2]]
    assert dequeue() is None


def test_channel_rows_keep_their_limits_and_counters(channels: Callable[..., None]) -> None:
    channels("a", max_concurrency=1, max_size=2)
    first, second = enqueue("a"), enqueue("a")
    assert enqueue("a") is None
    message = dequeue()
    assert message is not None
    assert message[0] == first
    assert dequeue() is None
    assert complete(message)
    message = dequeue()
    assert message is not None
    assert message[0] == second
    assert complete(message)
    assert sql("SELECT size, running, next_at FROM row_channel") == [(0, 0, None)]


def test_channel_rows_give_an_expired_lease_away_and_refuse_its_token(channels: Callable[..., None]) -> None:
    channels("a")
    enqueue("a")
    late = dequeue()
    sql("UPDATE row_message SET lease_expires_at = clock_timestamp()")
    again = dequeue()
    assert again is not None
    assert late is not None
    assert again[0] == late[0]
    assert not complete(late)
    assert complete(again)
    assert sql("SELECT size, running FROM row_channel") == [(0, 0)]
