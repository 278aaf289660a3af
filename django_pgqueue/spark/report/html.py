"""Write the page: one file without scripts, images or external addresses, and a policy that forbids them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from django_pgqueue.charts import stylesheet, text


class Safe(str):
    """HTML that this package wrote, or that is made of escaped parts. Any other string is escaped."""

    __slots__ = ()


def safe(value: object) -> str:
    """Return HTML as it is, and any other value as escaped text."""
    return value if isinstance(value, Safe) else text(value)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. `anchor`: a fixed name, never one from the data."""

    anchor: str
    title: str
    body: str

    def html(self) -> str:
        """Return the section as HTML, with its anchor."""
        return f'<section id="{self.anchor}"><h2>{safe(self.title)}</h2>{self.body}</section>'


def html_paragraph(body: object) -> str:
    """Return a paragraph. ``body`` is escaped unless it is Safe."""
    return f"<p>{safe(body)}</p>"


def tiles(items: Iterable[tuple[str, str, str]]) -> str:
    """Return the figures at the top of the page: label, value, and the value to compare with."""
    drawn = (
        f"<div><dt>{text(label)}</dt><dd><b>{text(value)}</b> <span>{text(note)}</span></dd></div>"
        for label, value, note in items
    )
    return f'<dl class="tiles">{"".join(drawn)}</dl>'


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, names: int = 1) -> str:
    """Return a table. `names`: how many columns at the left are names; the others are numbers, aligned to the right."""
    heads = "".join(f'<th scope="col"{_number(place, names)}>{text(head)}</th>' for place, head in enumerate(headings))
    lines = "".join(f"<tr>{_cells(row, names)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><caption>{text(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cells(row: Sequence[object], names: int) -> str:
    drawn = []
    for place, cell in enumerate(row):
        body = f"<bdi>{safe(cell)}</bdi>" if place < names else safe(cell)
        drawn.append(f"<th scope=row>{body}</th>" if place == 0 else f"<td{_number(place, names)}>{body}</td>")
    return "".join(drawn)


def _number(place: int, names: int) -> str:
    return "" if place < names else ' class="number"'


def folded(summary: str, body: str) -> str:
    """Return a part of the page that is closed until the reader opens it. ``body`` is HTML."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>"


def page(title: str, subtitle: str, sections: Sequence[Section], footer: str) -> str:
    """Return the whole page. Its policy allows its own style, by its hash, and nothing else."""
    style = files("django_pgqueue.spark.report").joinpath("page.css").read_text(encoding="utf-8") + stylesheet()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    links = "".join(f'<li><a href="#{one.anchor}">{safe(one.title)}</a></li>' for one in sections)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f"<title>{text(title)}</title><style>{style}</style></head><body>"
        f"<header><h1>{text(title)}</h1><p>{text(subtitle)}</p><nav><ul>{links}</ul></nav></header>"
        f"<main>{''.join(one.html() for one in sections)}</main><footer><p>{text(footer)}</p></footer></body></html>\n"
    )
