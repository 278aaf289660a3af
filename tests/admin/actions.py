"""The actions of the admin: who may do them, on what they are tried, and what they change."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client

from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message, Queue, Schedule, SharedLimit, Worker
from django_pgqueue.pipeline.models import Lake, QueueMetric

ALLOWED = {
    ("channel", "pause"): "pause_channel",
    ("channel", "resume"): "pause_channel",
    ("channel", "purge"): "purge_channel",
    ("channel", "release"): "change_channel",
    ("channel", "erase"): "erase_channel",
    ("deadletter", "redrive"): "redrive_deadletter",
    ("deadletter", "edit"): "edit_deadletter",
    ("deadletter", "delete_dead"): "delete_deadletter",
    ("message", "retry_now"): "reschedule_message",
    ("message", "reschedule"): "reschedule_message",
    ("message", "edit"): "edit_message",
    ("message", "discard"): "discard_message",
    ("message", "release_leases"): "release_message",
    ("message", "cancel"): "cancel_message",
    ("queue", "pause"): "pause_queue",
    ("queue", "resume"): "pause_queue",
    ("sharedlimit", "pause"): "pause_sharedlimit",
    ("sharedlimit", "resume"): "pause_sharedlimit",
    ("worker", "pause"): "pause_worker",
    ("worker", "resume"): "pause_worker",
    ("schedule", "run_now"): "run_schedule",
    ("schedule", "disable"): "change_schedule",
}
ACTIONS = list(ALLOWED)
# The object that an action is tried on, where that is not the object of the model.
SUBJECTS = {("message", "retry_now"): "scheduled", ("message", "release_leases"): "leased"}
# The fields that the forms of the pages in between ask for.
CONFIRMED = {"confirmed": "yes", "reason": "x", "at": "2100-01-01T00:00", "payload": "[1]"}


def everything() -> list[object]:
    """Return all rows of all models of the admin, to compare before and after."""
    models = (
        Queue, Channel, Message, ArchivedMessage, DeadLetter, Worker, Schedule, SharedLimit, Lake, QueueMetric,
    )  # fmt: skip
    return [list(model.objects.order_by("pk").values()) for model in models]


def subject(one_of_each: dict[str, int], model: str, action: str) -> int:
    """Return the primary key of the object that an action is tried on."""
    return one_of_each[SUBJECTS.get((model, action), model)]


def other_permissions(model: str, action: str) -> set[str]:
    """Return the permissions of all actions but this one."""
    return {codename for codename in ALLOWED.values() if codename != ALLOWED[model, action]}


def client_with_csrf_checks(user: User) -> Client:
    """Return the browser of a user that checks the CSRF token, as a real site does."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    return client
