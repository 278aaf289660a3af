"""The guard of tests/support/session_guard.py sees the sessions of others, says which they are, and ends them."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection

from tests.support.session_guard import refuse_others, wait_for_others
from tests.support.sessions import Connect


@pytest.fixture(autouse=True)
def _own(transactional_db: None) -> None:
    connection.ensure_connection()


def test_the_session_of_django_is_none_of_the_others() -> None:
    assert wait_for_others() == []


def test_a_session_that_stays_is_named_and_ended(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.session_guard.PATIENCE_SECONDS", 0)
    left = connect(autocommit=True, application_name="left behind")
    left.execute("SELECT 'its last statement'")
    with pytest.raises(pytest.fail.Exception, match=r"This test leaves .*\n  left behind, pid .*last statement"):
        refuse_others("This test")
    assert wait_for_others() == []
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")
