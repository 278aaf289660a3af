from django_pgqueue.pipeline.models.lake import Lake
from django_pgqueue.pipeline.models.queue_metric import QueueMetric

__all__ = ["Lake", "QueueMetric"]
