from __future__ import annotations

from tests.doctor.conftest import Examine
from tests.support.sql import sql, value


def test_a_partition_that_is_missing_in_some_days(found: Examine) -> None:
    assert found("archive") == {}
    day = value("SELECT ((clock_timestamp() AT TIME ZONE 'UTC')::date + 4)::text")
    sql(f"DROP TABLE pgqueue_archived_message_{day.replace('-', '')}")
    assert found("archive")["partitions_behind"].facts == {"missing": [day]}
    sql("SELECT pgqueue_prune()")
    assert found("archive") == {}


def test_the_last_day_may_be_made_after_midnight(found: Examine) -> None:
    day = value("SELECT to_char((clock_timestamp() AT TIME ZONE 'UTC')::date + 7, 'YYYYMMDD')")
    sql(f"DROP TABLE pgqueue_archived_message_{day}")
    assert found("archive") == {}


def test_a_default_partition_takes_every_day(found: Examine) -> None:
    for days in range(2, 8):
        day = value("SELECT to_char((clock_timestamp() AT TIME ZONE 'UTC')::date + %s, 'YYYYMMDD')", days)
        sql(f"DROP TABLE pgqueue_archived_message_{day}")
    sql("CREATE TABLE pgqueue_rest PARTITION OF pgqueue_archived_message DEFAULT")
    assert found("archive") == {}
