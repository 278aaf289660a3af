"""Sphinx, for `make docs`. The pages are plain Markdown that a code host shows well; what Sphinx wants is added here.

- A fence may carry words for the tests (`python no-run`, `python file=a.py`): a file's name becomes the caption.
- A comment `<!-- search: rate limit, throttle -->` says under which words the site's search finds a section first.
- The lists of links of an index page are its table of contents.
- CHANGELOG, CODE_OF_CONDUCT, CONTRIBUTING and SECURITY stay where they are looked for; on the site they are pages of
  `project/`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

from django_pgqueue import __version__

DOCS = Path(__file__).parent.resolve()
REPOSITORY = DOCS.parent
# Files that the pages of project/ show in their place.
SHOWN = {
    "project/changes": REPOSITORY / "CHANGELOG.md",
    "project/conduct": REPOSITORY / "CODE_OF_CONDUCT.md",
    "project/contributing": REPOSITORY / "CONTRIBUTING.md",
    "project/security": REPOSITORY / "SECURITY.md",
}

project = "pgqueue-django"
project_copyright = "the pgqueue-django authors"
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_static"]
nitpicky = True
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"pgqueue-django {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_search_scorer = str(DOCS / "search.js")

FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
SOUGHT = re.compile(r"^<!-- search: (?P<words>.+?) -->$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?P<file>[^):#\s]+)(?=[#)])")
ITEM = re.compile(r"^(?:## (?P<heading>.+)|- \[[^\]]+\]\((?P<page>[^):#\s]+)\.md\).*)$", re.MULTILINE)


def captioned(fence: re.Match[str]) -> str:
    """The fence without the words for the tests; with the name of the file that it is about."""
    language, *words = fence["info"].split() or ["text"]
    language = {"sql": "postgresql"}.get(language, language)
    options = dict(word.split("=", 1) for word in words if "=" in word)
    caption = options.get("file") or (f"{options['append']}, at the end" if "append" in options else None)
    if caption is None:
        return f"{fence['fence']}{language}\n{fence['text']}{fence['fence']}"
    return f"{fence['fence']}{{code-block}} {language}\n:caption: {caption}\n\n{fence['text']}{fence['fence']}"


def indexed(comment: re.Match[str]) -> str:
    """The words of the comment as entries of the index. The search ranks main entries first."""
    return f"```{{index}} {', '.join(f'! {word.strip()}' for word in comment['words'].split(','))}\n```"


def relinked(text: str, file: Path, page: Path) -> str:
    """The links of a file, for a page in another place. A file that the site shows is linked to there. Markdown that is
    no page of the site is offered as a file."""
    places = {shown: DOCS / f"{name}.md" for name, shown in SHOWN.items()}

    def target(link: re.Match[str]) -> str:
        linked = (file.parent / link["file"]).resolve()
        shown = places.get(linked, linked)
        scheme = "path:" if shown.suffix == ".md" and not shown.is_relative_to(DOCS) and shown.exists() else ""
        return scheme + Path(os.path.relpath(shown, page.parent)).as_posix()

    return LINK.sub(target, text)


def contents(text: str) -> str:
    """A hidden table of contents for each heading of an index page, of the links in its lists."""
    sections: dict[str, list[str]] = {}
    heading = ""
    for item in ITEM.finditer(text):
        heading = item["heading"] or heading
        if item["page"]:
            sections.setdefault(heading, []).append(item["page"])
    trees = []
    for title, pages in sections.items():
        options = [":hidden:", f":caption: {title}"] if title else [":hidden:"]
        trees.append("\n".join(["", "```{toctree}", *options, "", *pages, "```", ""]))
    return "".join(trees)


def read(app: Sphinx, name: str, source: list[str]) -> None:
    page = DOCS / f"{name}.md"
    file = SHOWN.get(name, page)
    text = file.read_text() if name in SHOWN else source[0]
    if name in SHOWN or any(shown.name in text for shown in SHOWN.values()):
        text = relinked(text, file, page)
    text = SOUGHT.sub(indexed, FENCE.sub(captioned, text))
    if name.rpartition("/")[2] == "index":
        text += contents(text)
    source[0] = text


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
