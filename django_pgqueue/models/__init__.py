from django_pgqueue.models.activity import Activity, Dashboard
from django_pgqueue.models.archived_message import ArchivedMessage
from django_pgqueue.models.backlog import Backlog
from django_pgqueue.models.channel import Channel
from django_pgqueue.models.dead_letter import DeadLetter
from django_pgqueue.models.lane import Lane
from django_pgqueue.models.message import Message
from django_pgqueue.models.queue import Queue
from django_pgqueue.models.schedule import Schedule, ScheduleTick
from django_pgqueue.models.shared_limit import SharedLimit
from django_pgqueue.models.worker import Worker

__all__ = [
    "Activity",
    "ArchivedMessage",
    "Backlog",
    "Channel",
    "Dashboard",
    "DeadLetter",
    "Lane",
    "Message",
    "Queue",
    "Schedule",
    "ScheduleTick",
    "SharedLimit",
    "Worker",
]
