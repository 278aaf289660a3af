"""A report as a reader sees it."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from django_pgqueue.spark.report.read import Choice
from django_pgqueue.spark.report.write import ReportRequest, write


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


def reported(path: Path, *, queues: Sequence[str] = (), channel: str | None = None, **asked: Any) -> Page:
    """Write a report with the options of `ReportRequest`, and read it."""
    output = path.parent / "report.html"
    write(path, output, ReportRequest(choice=Choice(queues, channel), **asked))
    return Page(output.read_text(encoding="utf-8"))
