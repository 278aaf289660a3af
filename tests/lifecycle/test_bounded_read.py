from __future__ import annotations

import pytest
from django.db import OperationalError
from psycopg.errors import QueryCanceled

from django_pgqueue.sql.call import bounded_read, call
from tests.support.sql import value

pytestmark = pytest.mark.django_db


def test_a_read_that_takes_too_long_is_given_up():
    with pytest.raises(OperationalError) as raised, bounded_read("default", seconds=0.05):
        call("default", "SELECT pg_sleep(60)")
    assert isinstance(raised.value.__cause__, QueryCanceled)
    assert value("SELECT 1") == 1


def test_nothing_of_it_stays():
    before = value("SELECT current_setting('statement_timeout')")
    with bounded_read("default", seconds=5):
        assert value("SELECT current_setting('statement_timeout')") == "5s"
        value("SELECT pgqueue_channel_set('default', 'left behind')")
    assert value("SELECT current_setting('statement_timeout')") == before
    assert value("SELECT count(*) FROM pgqueue_channel WHERE name = 'left behind'") == 0
