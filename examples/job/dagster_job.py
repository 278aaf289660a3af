import os
import subprocess
import sys

from dagster import RetryPolicy, asset


def run(command: str) -> None:
    subprocess.run([sys.executable, "-m", "django_pgqueue.spark", command, "--lake", os.environ["LAKE"]], check=True)


@asset(retry_policy=RetryPolicy(max_retries=3, delay=60))
def archive() -> None:
    run("export")


@asset(deps=[archive], retry_policy=RetryPolicy(max_retries=3, delay=60))
def metrics() -> None:
    run("rollup")
