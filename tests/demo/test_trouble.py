"""The incidents of docs/how-to/incidents.md can be made."""

from __future__ import annotations

from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.demo.conftest import Manage


def test_a_bad_deploy_fills_the_dead_letters(manage: Manage) -> None:
    done = manage("demotrouble", "deploy", "--messages", "20", "--drain")
    assert done.returncode == 0, done.stderr
    assert DeadLetter.objects.filter(reason="failed", handler="fares.reprice").count() == 20
    assert ArchivedMessage.objects.filter(queue="fares", outcome="completed").count() == 70


def test_a_host_dies_with_what_it_runs(manage: Manage) -> None:
    assert manage("demotrouble", "host").returncode == -9
    assert Message.objects.filter(channel__queue="fares", status=Message.Status.LEASED).count() == 4
