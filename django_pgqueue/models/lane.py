"""Show the line. Only the SQL functions write these tables; sql/tables/runtime_v01.sql creates and explains them."""

from __future__ import annotations

from django.db import models

from django_pgqueue.models.channel import Channel
from django_pgqueue.models.fields import Moment


class NoRows(models.Manager["Lane"]):
    """Leave the rows out of ``dumpdata``, which reads the default manager: the messages make the lanes anew."""

    def get_queryset(self) -> models.QuerySet[Lane]:
        return super().get_queryset().none()


class Lane(models.Model):
    """The place of an active channel in its queue's line."""

    channel = models.OneToOneField(
        Channel, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="lane"
    )
    seq = models.BigIntegerField()
    queue = models.CharField(max_length=100)
    parked_until = Moment(null=True)
    served = models.IntegerField()
    current_id = models.BigIntegerField(null=True)

    dumped = NoRows()
    objects = models.Manager["Lane"]()

    class Meta:
        managed = False
        db_table = "pgqueue_lane"

    def __str__(self) -> str:
        return f"lane of channel {self.channel_id}"
