"""The examples of the page on commands are typed, and what it shows comes: the words, whatever the figures are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_pgqueue import NewMessage, channel_set, dead_letter, dequeue, enqueue_many, handlers, queue_pause
from django_pgqueue.models import Worker
from tests.support.markdown import blocks
from tests.support.moments import pass_time
from tests.support.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "commands.md"
TYPED = [block for block in blocks(PAGE) if block.language == "console" and "no-run" not in block.words]
FIGURE = re.compile(r"\d[\d.,:]*\d|\d")


@pytest.fixture
def _scene(db: None) -> Iterator[None]:
    """A queue that is behind, a worker that died, dead letters, a handler and a role."""
    for name in ("report.make", "mail.send"):
        handlers.handler(name)(lambda delivery: None)
    channel_set(channel="default")
    channel_set(channel="acme", queue="mails")
    mail = NewMessage(handler="mail.send", channel="acme", queue="mails")
    enqueue_many([mail] * 1_300)
    pass_time(minutes=5)
    enqueue_many([NewMessage(handler="report.make")] * 3)
    dead_letter(dequeue("mails", limit=9, lease=timedelta(hours=1)), reason="unknown_handler")
    dequeue("mails", limit=8, lease=timedelta(hours=1), worker="worker-3:4711")
    Worker.objects.create(name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="1")
    queue_pause(queue="mails")
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE shop_web")
    yield
    for name in ("report.make", "mail.send"):
        handlers.unregister(name)


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", FIGURE.sub("0", text)).strip()


def said(command: str) -> str:
    program, manage, name, *arguments = shlex.split(command)
    assert (program, manage) == ("python", "manage.py")
    output = StringIO()
    with suppress(SystemExit, CommandError):  # the status says what was found, and so does the output
        call_command(name, *arguments, stdout=output, skip_checks=True)
    return output.getvalue()


@pytest.mark.usefixtures("_scene")
def test_the_examples_of_the_page_show_the_real_output() -> None:
    assert len(TYPED) >= 10
    missing = []
    for block in TYPED:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, *expected = part.splitlines()
            lines = [plain(line) for line in said(command).splitlines()]
            for line in filter(None, map(plain, expected)):
                pattern = ".*".join(re.escape(text) for text in line.split("…"))
                if not any(re.fullmatch(pattern, found) for found in lines):
                    missing.append((command, line, lines))
    assert not missing, "\n".join(map(str, missing))
