"""A delivery that no database knows."""

from __future__ import annotations

from datetime import UTC, datetime

from django_pgqueue import Delivery

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DELIVERY = Delivery(
    id=7, queue="default", channel="default", handler="h", payload=None, body=None, headers={}, priority=0, attempt=1,
    max_attempts=5, token=None, lease_expires_at=NOW, state=None, created_at=NOW, dequeue_at=NOW,
)  # fmt: skip
