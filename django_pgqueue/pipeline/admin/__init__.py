"""The pipeline in Django's admin. On an AdminSite of your own: ``site.register(Lake, LakeAdmin)`` and so on."""

from django_pgqueue.pipeline.admin.lake import LakeAdmin
from django_pgqueue.pipeline.admin.queue_metric import QueueMetricAdmin

__all__ = ["LakeAdmin", "QueueMetricAdmin"]
