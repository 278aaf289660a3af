"""The files of SQL, and the comments at their heads."""

from __future__ import annotations

import re

from django_pgqueue.sql import files

FILES = files.file_paths("functions")
TABLES = files.file_paths("tables")
SQL = [*FILES, *TABLES, *sorted((files.PACKAGE / "spark").rglob("*.sql"))]
LATEST = files.latest_functions()


def header(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line)
    return "\n".join(lines)


def header_in_one_line(text: str) -> str:
    return " ".join(line.removeprefix("--").strip() for line in header(text).splitlines())


def uncommented(text: str) -> str:
    return re.sub(r"--.*", "", text)
