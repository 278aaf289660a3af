from __future__ import annotations

from django.db import models

from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Moment


class Lake(models.Model):
    """A lake of Delta tables, with the state of its last export. Retention reads this table.

    The logs of its tables are the truth; a row that is deleted comes back with the next export. ``lost``: by day,
    how many messages retention has dropped before this lake had them.
    """

    name = models.CharField(max_length=200, primary_key=True)
    path = models.TextField()
    exported_xid = models.BigIntegerField()
    exported_at = Moment(db_default=ClockTimestamp())
    rows = models.JSONField(default=dict, db_default={})
    lost = models.JSONField(default=dict, db_default={})

    class Meta:
        db_table = "pgqueue_lake"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
