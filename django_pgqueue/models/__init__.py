from django_pgqueue.models.archived_message import ArchivedMessage
from django_pgqueue.models.channel import Channel
from django_pgqueue.models.dead_letter import DeadLetter
from django_pgqueue.models.lane import Lane
from django_pgqueue.models.message import Message
from django_pgqueue.models.queue import Queue
from django_pgqueue.models.schedule import Schedule, ScheduleTick
from django_pgqueue.models.worker import Worker

__all__ = ["ArchivedMessage", "Channel", "DeadLetter", "Lane", "Message", "Queue", "Schedule", "ScheduleTick", "Worker"]
