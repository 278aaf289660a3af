"""Find the SQL files of the queue's apps, and read functions from them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

QUEUE, PIPELINE, FLOW = "pgqueue", "pgqueue_pipeline", "pgqueue_flow"
PACKAGE = Path(__file__).parents[1]
# The folders by the label of the app. File names are unique over all, so a name is enough to find a file.
FOLDERS = {QUEUE: PACKAGE / "sql", PIPELINE: PACKAGE / "pipeline" / "sql", FLOW: PACKAGE / "flow" / "sql"}


@cache
def index(app: str, kind: str) -> dict[str, Path]:
    """Return the SQL files of an app by name, sorted, whatever subfolder they are in. ``kind``: functions or tables."""
    return {path.name: path for path in sorted((FOLDERS[app] / kind).rglob("*.sql"), key=lambda path: path.name)}


def find_file(kind: str, name: str, version: int) -> Path:
    """Return the path of ``<name>_vNN.sql`` in the app that has it.

    ``kind``: functions or tables. Raises FileNotFoundError.
    """
    file = f"{name}_v{version:02}.sql"
    for app in FOLDERS:
        if path := index(app, kind).get(file):
            return path
    raise FileNotFoundError(f"No app of the queue has {kind}/**/{file}")


def read_file(kind: str, name: str, version: int) -> str:
    """Return the text of ``<name>_vNN.sql``. ``kind``: functions or tables."""
    return find_file(kind, name, version).read_text(encoding="utf-8")


def file_paths(kind: str, apps: Iterable[str] = tuple(FOLDERS)) -> list[Path]:
    """Return all files of these apps; default: of all apps. ``kind``: functions or tables."""
    return [path for app in apps for path in index(app, kind).values()]


def latest_functions(apps: Iterable[str] = tuple(FOLDERS)) -> dict[str, int]:
    """Return every function of these apps with the newest version that this release ships."""
    versions: dict[str, int] = {}
    for path in file_paths("functions", apps):
        name, _, version = path.stem.rpartition("_v")
        versions[name] = max(int(version), versions.get(name, 0))
    return versions


def function_body(name: str, version: int) -> str:
    """Return the text between the dollar quotes, as PostgreSQL keeps it in ``pg_proc.prosrc``. Raises ValueError."""
    match = re.search(r"AS \$\$(.*)\$\$;", read_file("functions", name, version), re.DOTALL)
    if match is None:
        raise ValueError(f"{name}_v{version:02}.sql has no body between AS $$ and $$;")
    return match[1]


def is_definer(name: str, version: int) -> bool:
    """Return whether the function runs with the rights of its owner."""
    return "\nSECURITY DEFINER\n" in read_file("functions", name, version)
