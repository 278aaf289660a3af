"""python -m tests.docs.llms writes llms.txt anew: the pages of docs/index.md, as a list for language models."""

from __future__ import annotations

import re

from tests.support.markdown import DOCS
from tests.support.paths import REPOSITORY

FILE = REPOSITORY / "llms.txt"
HEAD = """# pgqueue-django

> A message queue in PostgreSQL for Django. Messages are enqueued in the transaction that writes the rows; each tenant
> has a channel with its own limits; workers lease messages, and what a dead worker held comes back by itself; settled
> messages are kept in an archive, refused ones as dead letters with a reason. Import package: `django_pgqueue`.

Needs Python 3.11, Django 5.2, psycopg 3.2.10 and PostgreSQL 15, or newer. The package `django-pgqueue` on PyPI is
another project. There is no broker, and a payload is JSON.

- [README](README.md): what is there, and the shortest example
- [Changes](CHANGELOG.md)
- [Security](SECURITY.md): who is trusted with what, and the test of each promise
- [Contributing](CONTRIBUTING.md): how to run and change it
- [Release](docs/project/release.md): how maintainers make a version
"""


def text() -> str:
    """The head, and each list of the index with its links seen from the root."""
    parts = []
    for section in re.split(r"(?m)^(?=## )", (DOCS / "index.md").read_text())[1:]:
        title, items = section.partition("\n")[0], re.findall(r"(?m)^- \[.*(?:\n  .*)*", section)
        if items and title != "## The project":  # it is in the head
            links = [re.sub(r"\]\((?!https?:|\.\.)", "](docs/", item).replace("](../", "](") for item in items]
            parts.append("\n".join([f"\n{title}\n", *links, ""]))
    return HEAD + "".join(parts)


if __name__ == "__main__":
    FILE.write_text(text())
