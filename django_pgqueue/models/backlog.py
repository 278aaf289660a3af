from __future__ import annotations

from django.db import models

from django_pgqueue.models.fields import Moment


class Backlog(models.Model):
    """The result of the last count: messages by state, and dead letters that were not redriven.

    ``channel`` NULL: those of the whole queue. A channel without messages has no row. ``waiting_for_limit``: those that
    wait for a full shared limit. ``waiting_for_order_key``: those that wait for the message before them of their order
    key. ``blocked``: those of the scheduled ones that wait for other messages. ``oldest_at``: since when the oldest
    ready message has been due.
    """

    queue = models.CharField(max_length=100, db_collation="C")
    channel = models.CharField(max_length=200, null=True, db_collation="C")
    ready = models.BigIntegerField()
    leased = models.BigIntegerField()
    scheduled = models.BigIntegerField()
    waiting_for_limit = models.BigIntegerField()
    waiting_for_order_key = models.BigIntegerField()
    blocked = models.BigIntegerField()
    dead = models.BigIntegerField()
    oldest_at = Moment(null=True)

    class Meta:
        db_table = "pgqueue_backlog"
        default_permissions = ()

    def __str__(self) -> str:
        return "/".join(part for part in (self.queue, self.channel) if part is not None)
