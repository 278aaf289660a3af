"""Counts what Celery has done, because its broker does not."""

import common
from celery.signals import task_failure, task_success


@task_success.connect
def completed(**event: object) -> None:
    common.count("completed")


@task_failure.connect
def failed(**event: object) -> None:
    common.count("dead")
