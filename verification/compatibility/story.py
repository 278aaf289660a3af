"""The life of a project from its first day on, on an empty database; prints the results as JSON.

The settings are those of a variant (COMPATIBILITY). Warnings are errors.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import django
from asgiref.testing import ApplicationCommunicator
from django.core import checks
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.db import connections, transaction


class RollBack(Exception):
    """An error that rolls a transaction back."""


def main() -> None:
    django.setup()
    for using in connections:
        call_command("migrate", database=using, verbosity=0)
    found = checks.run_checks(databases=list(connections))
    # The throw-away server of the tests may run without fsync.
    unsafe = {"pgqueue.W010", "pgqueue.W011"}
    results: dict[str, Any] = {"checks": sorted({message.id for message in found} - unsafe)}
    results["no changes"] = not call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
    results["rolled back"] = enqueue_and_roll_back()
    with transaction.atomic():
        for handler in ("atomic", "plain", "asynchronous", "refused"):
            from django_pgqueue import enqueue

            enqueue(f"shop.{handler}", "one")
    results["wsgi"] = [wsgi(f"/order/{name}") for name in ("sound", "broken")]
    results["asgi"] = [
        asyncio.run(asgi(f"/{view}")) for view in ("order/sound-asgi", "order/broken-asgi", "async/async")
    ]
    results["live"] = live()
    call_command("runqueueworker", drain=True, processes=0)
    results |= ended()
    json.dump(results, sys.stdout)


def enqueue_and_roll_back() -> int:
    """How many messages outlive the transaction of the rows that they belong to."""
    from django.contrib.auth.models import Group

    from django_pgqueue import channel_purge, enqueue

    try:
        with transaction.atomic():
            Group.objects.create(name="never")
            enqueue("shop.atomic", "never")
            raise RollBack
    except RollBack:
        return channel_purge(channel="default")


def live() -> int:
    from django_pgqueue.models import Message

    return Message.objects.count()


def ended() -> dict[str, Any]:
    from django.contrib.auth.models import Group

    from django_pgqueue.models import ArchivedMessage, DeadLetter, Message

    with connections[Message.objects.db].cursor() as cursor:
        cursor.execute("SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'pgqueue_message'")
        [(schema,)] = cursor.fetchall()
    return {
        "groups": sorted(Group.objects.values_list("name", flat=True)),
        "completed": ArchivedMessage.objects.filter(outcome="completed").count(),
        "dead": list(DeadLetter.objects.values_list("handler", flat=True)),
        "left": Message.objects.count(),
        "schema": schema,
    }


def wsgi(path: str) -> int:
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": path, "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "wsgi.input": BytesIO(), "wsgi.url_scheme": "http", "wsgi.errors": sys.stderr,
    }  # fmt: skip

    def begin(status: str, headers: list[tuple[str, str]], error: object = None, /) -> Callable[[bytes], object]:
        statuses.append(status)
        return lambda body: None

    response = get_wsgi_application()(environ, begin)
    b"".join(response)
    response.close()
    return int(statuses[0].split()[0])


async def asgi(path: str) -> int:
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": path,
        "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    application = ApplicationCommunicator(get_asgi_application(), scope)
    await application.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await application.receive_output(30)
    while (await application.receive_output(30)).get("more_body"):
        pass
    await application.wait()
    return int(start["status"])


if __name__ == "__main__":
    main()
