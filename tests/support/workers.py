"""Rows of workers, without processes."""

from __future__ import annotations

from typing import Any

from django_pgqueue.models import Worker


def make_worker(name: str, **fields: Any) -> Worker:
    """Register a worker that serves the queue ``default``, has room and sent its last sign of life just now."""
    given = {"hostname": "h", "pid": 1, "queues": ["default"], "concurrency": 2, "version": "1"}
    return Worker.objects.create(name=name, **given | fields)
