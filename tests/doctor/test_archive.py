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
