"""A report as a reader sees it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

from django_pgqueue.spark.report.page import page
from django_pgqueue.spark.report.read import Subject, read


class Page(HTMLParser):
    """Its text by section and its tables by caption; all tags and attributes that it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self.style = ""
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attributes:
            self.attributes.setdefault(name, set()).add(value or "")
        match tag:
            case "table":
                self._rows = []
            case "tr":
                self._rows.append([])
            case "th" | "td":
                self._rows[-1].append("")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            self.style += data
            return
        self.text += data
        if "caption" in self._open:
            self.tables[data] = self._rows
        elif {"th", "td"} & set(self._open):
            self._rows[-1][-1] += data


def reported(
    path: Path, *, queues: Sequence[str] = (), channel: str | None = None, days: int = 7, until: date | None = None
) -> Page:
    """Return the report of a lake, as the command writes it."""
    return Page(page(read(path, Subject(tuple(queues), channel), days, until)))
