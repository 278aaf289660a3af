"""A process that a supervisor starts works only on the supervisor's database."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.db import connection

from django_pgqueue.worker.link import Link, Orders, database_identity, prepare_process
from django_pgqueue.worker.options import WorkerOptions


def prepared(database: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the frames that a process sends which finds the settings of this test, not those of ``database``."""
    link, descriptor = Link.pair()
    child = Link(descriptor)
    orders = Orders(WorkerOptions(using="default"), 1, database, list(sys.path), None)
    same = prepare_process(orders, child)
    child.close()
    frames = [frame for frame in iter(link.receive, None) if frame is not None]
    link.close()
    assert same == (not frames)
    return frames


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the process would take the variable of its parent
    return database_identity(connection.settings_dict)


def test_a_process_with_the_same_database_goes_on(ours: dict[str, Any]) -> None:
    assert prepared(ours) == []


@pytest.mark.parametrize("key", ["HOST", "PORT", "NAME"])
def test_a_refusal_names_what_differs_of_the_two_databases(ours: dict[str, Any], key: str) -> None:
    [(word, reason)] = prepared({**ours, key: "elsewhere"})
    assert word == "refused"
    assert f"{key} {ours[key]!r}, not {key} 'elsewhere'. With settings that" in reason
