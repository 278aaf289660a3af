from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.fields import Moment


class BatchRecord(models.Model):
    """A batch, as the SQL functions keep it. Reading it is fine; only the functions write it.

    A row with a policy and a negative id is no batch: message ``-id`` waits for its members.
    """

    parent_id = models.BigIntegerField(null=True, verbose_name=_("outer batch"))
    on_done = models.JSONField(null=True)
    on_dead = models.JSONField(null=True)
    opened_at = Moment()
    sealed_at = Moment(null=True)
    finished_at = Moment(null=True)
    total = models.BigIntegerField(default=0)
    callback_id = models.BigIntegerField(null=True, verbose_name=_("message that followed"))
    refusal = models.JSONField(null=True)
    policy = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = "pgqueue_batch"
        verbose_name = _("batch")
        verbose_name_plural = _("batches")

    def __str__(self) -> str:
        return f"batch {self.pk}"
