"""A Celery app without a broker, whose tasks the tests make."""

from celery import Celery

project = Celery("project", broker="memory://", set_as_current=False)
