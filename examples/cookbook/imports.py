"""An import in pieces: its progress is visible, a deploy or a crash repeats one piece at most, and it can be stopped.

A message of 20 minutes that is one call is killed by a deploy after the worker's `--shutdown-timeout`, and its work
is lost. Pieces of some seconds are never killed.
"""

import asyncio
import json
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.http import HttpRequest, StreamingHttpResponse

from django_pgqueue import Complete, Defer, Delivery, enqueue, handler
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message

PIECE = 500


def start(rows: int) -> int:
    return enqueue("import.rows", {"rows": rows}, dedupe_key="import").id


@handler("import.rows", atomic=True)
def import_rows(delivery: Delivery) -> Defer | Complete:
    """`atomic`: the rows of a piece and the position commit together."""
    first = (delivery.state or {"done": 0})["done"]
    done = min(first + PIECE, delivery.payload["rows"])
    write(range(first, done))
    if done < delivery.payload["rows"]:
        return Defer(state={"done": done})
    return Complete({"done": done})


def write(rows: range) -> None: ...  # yours: bulk_create


def progress(message: int) -> dict:
    """Return how far it is: {"state": "running", "done": 1500}."""
    if (live := Message.objects.filter(pk=message).first()) is not None:
        return {"state": "running", "done": (live.state or {"done": 0})["done"]}
    if (done := ArchivedMessage.objects.filter(pk=message).first()) is not None:
        return {"state": done.outcome, **(done.result or {})}
    return {"state": "failed" if DeadLetter.objects.filter(pk=message).exists() else "unknown"}


async def events(request: HttpRequest, message: int) -> StreamingHttpResponse:
    """Server-sent events for a page of the user who started it: ids can be guessed, so check that first."""
    return StreamingHttpResponse(
        stream(message), content_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def stream(message: int, *, every: float = 1.0) -> AsyncIterator[str]:
    """It asks once a second, and holds no session of the database meanwhile."""
    while True:
        now = await sync_to_async(progress)(message)
        yield f"data: {json.dumps(now)}\n\n"
        if now["state"] != "running":
            return
        await asyncio.sleep(every)
