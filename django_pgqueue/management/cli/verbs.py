"""Declare the verbs of ``manage.py pgqueue``: each is a short function with its words, an example and its options."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from django_pgqueue.limits import HANDLER_PREFIX
from django_pgqueue.management.database import has_queue
from django_pgqueue.models import Channel, Queue, Schedule, SharedLimit, Worker
from django_pgqueue.redaction import printable

# Adds itself to a parser, or to a group of one.
Option = Callable[[Any], object]
Rows = Sequence[Mapping[str, Any]]

MODELS: dict[str, Any] = {
    "queue": Queue, "channel": Channel, "schedule": Schedule, "worker": Worker, "limit": SharedLimit,
    "handler": SharedLimit,
}  # fmt: skip
NUMBER = re.compile(r"\d[\d:.,+]*$", re.ASCII)
TEXTS = {"name", "queue", "channel", "handler", "queues", "handlers", "worker", "version", "reason"}
COLOURS = dict.fromkeys(("paused", "released", "disabled", "trying", "full"), "WARNING")
COLOURS |= dict.fromkeys(("open", "silent"), "ERROR") | dict.fromkeys(("leased", "running"), "SUCCESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """Hold one verb.

    ``words``: one word, or a verb and a thing. ``changes``: it has ``--dry-run``. ``asks``: on a terminal it shows what
    it would do and asks, unless ``--yes`` is given. ``database``: whether it has ``--database``, and whether that must
    have the tables of this release. ``has_json``: it has ``--json``.
    """

    words: str
    help: str
    example: str
    options: tuple[Option, ...]
    function: Callable[[VerbRun], None]
    changes: bool = False
    asks: bool = False
    database: Literal["migrated", "named", "none"] = "migrated"
    has_json: bool = True


VERBS: dict[str, Verb] = {}


def verb(words: str, help: str, example: str, *options: Option, **more: Any) -> Callable[[Any], Any]:  # noqa: A002
    """Register the decorated function as a verb. ``example``: arguments, as a user types them after the words."""

    def register(function: Callable[[VerbRun], None]) -> Callable[[VerbRun], None]:
        VERBS[words] = Verb(words=words, help=help, example=example, options=options, function=function, **more)
        return function

    return register


class VerbRun:
    """Hold one call of a verb: its options, its database, and how it answers."""

    def __init__(self, command: BaseCommand, verb: Verb, given: Namespace, using: str) -> None:
        self.command, self.verb, self.given, self.using = command, verb, given, using
        self.action, _, self.thing = verb.words.partition(" ")
        self.is_json: bool = verb.has_json and given.json
        self.dry_run: bool = verb.changes and given.dry_run

    @property
    def names(self) -> dict[str, str]:
        """Return the names that are given of the thing: its own, and the queue of a channel."""
        queue = {"queue": self.given.queue} if self.thing == "channel" else {}
        return {**queue, self.thing: self.given.name}

    @property
    def subject(self) -> str:
        """Return the thing and its name, such as ``channel mails/acme``."""
        return printable(f"{self.thing} {'/'.join(self.names.values())}")

    def rows(self) -> QuerySet[Any]:
        """Return the row of the thing."""
        name = HANDLER_PREFIX + self.given.name if self.thing == "handler" else self.given.name
        rows: QuerySet[Any] = MODELS[self.thing].objects.using(self.using)
        return rows.filter(name=name, queue=self.given.queue) if self.thing == "channel" else rows.filter(name=name)

    def require(self) -> QuerySet[Any]:
        """Return the row of the thing. Raises CommandError if it does not exist; a queue may do without a row."""
        rows = self.rows()
        if not (has_queue(self.given.name, self.using) if self.thing == "queue" else rows.exists()):
            raise CommandError(f"There is no {self.subject}. pgqueue {self.thing}s lists what there is.")
        return rows

    def done(self, word: str, more: str = ".", **facts: Any) -> None:
        """Answer that the thing is, or would be, what ``word`` says."""
        self.answer(f"{self.subject} {'would be' if self.dry_run else 'is'} {word}{more}", **self.names, **facts)

    def answer(self, text: str, **facts: Any) -> None:
        """Write the answer: ``text`` in one line, or with ``--json`` an object with ``facts``."""
        self.show([printable(text)], **facts)

    def show(self, lines: Iterable[str], **facts: Any) -> None:
        """Write printable lines, or with ``--json`` an object with ``facts`` in one line."""
        if self.is_json:
            head = {"action": self.action, "dry_run": self.dry_run} if self.verb.changes else {}
            lines = [json.dumps({"version": 1, **head, **facts}, default=str, ensure_ascii=False)]
        for line in lines:
            self.command.stdout.write(line)

    def warn(self, text: str) -> None:
        """Write a line to stderr."""
        self.command.stderr.write(printable(text))

    def table(self, name: str, rows: Rows, columns: Sequence[str]) -> None:
        """Write rows as a table of these columns, or with ``--json`` as a list of whole rows, called ``name``."""
        self.show(self.grid(rows, columns) if rows else [f"No {name.replace('_', ' ')}."], **{name: rows})

    def grid(self, rows: Rows, columns: Sequence[str]) -> list[str]:
        """Return the lines of a table, with aligned columns: numbers to the right."""
        heads = [name.replace("_", " ") for name in columns]
        cells = [[cell(row[name]) for name in columns] for row in rows]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        right = [
            name not in TEXTS and any(NUMBER.match(line[place]) for line in cells) for place, name in enumerate(columns)
        ]

        def aligned(texts: Sequence[str]) -> list[str]:
            places = zip(texts, widths, right, strict=True)
            return [text.rjust(width) if is_right else text.ljust(width) for text, width, is_right in places]

        head = self.paint("MIGRATE_HEADING", " ".join(aligned(heads)).rstrip())
        lines = [" ".join(self.paint(COLOURS.get(text.strip(), ""), text) for text in aligned(row)) for row in cells]
        return [head, *map(str.rstrip, lines)]

    def paint(self, style: str, text: str) -> str:
        """Return the text in a style of Django's commands, if the output is a terminal."""
        is_colourful = style and (self.command.stdout.isatty() or self.given.force_color)
        return str(getattr(self.command.style, style)(text)) if is_colourful else text


def cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    text = printable(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return text if text and value is not None else "-"
