"""Show the queue in Django's admin. For an AdminSite of your own, call ``site.register(Channel, ChannelAdmin)`` and so
on."""

from django_pgqueue.admin.archived_message import ArchivedMessageAdmin
from django_pgqueue.admin.channel import ChannelAdmin
from django_pgqueue.admin.dashboard.page import DashboardAdmin
from django_pgqueue.admin.dead_letter import DeadLetterAdmin
from django_pgqueue.admin.message import MessageAdmin
from django_pgqueue.admin.queue import QueueAdmin
from django_pgqueue.admin.schedule import ScheduleAdmin
from django_pgqueue.admin.shared_limit import SharedLimitAdmin
from django_pgqueue.admin.worker import WorkerAdmin

__all__ = [
    "ArchivedMessageAdmin",
    "ChannelAdmin",
    "DashboardAdmin",
    "DeadLetterAdmin",
    "MessageAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "SharedLimitAdmin",
    "WorkerAdmin",
]
