from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from django_pgqueue.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_run_this_python(spark: SparkSession):
    def python(_: int) -> str:
        import sys

        return sys.executable

    assert spark.sparkContext.parallelize([1], 1).map(python).collect() == [sys.executable]


def test_a_session_that_is_there_is_used_and_goes_on(spark: SparkSession):
    with session("another") as other:
        assert other is spark
    assert spark.range(3).count() == 3
