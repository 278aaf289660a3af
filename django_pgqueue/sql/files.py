"""The SQL files of the queue's apps: where they are, and what a function's body is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

QUEUE, PIPELINE = "pgqueue", "pgqueue_pipeline"
PACKAGE = Path(__file__).parents[1]
# By the label of the app. No two files have the same name, so that a name is enough to find one.
FOLDERS = {QUEUE: PACKAGE / "sql", PIPELINE: PACKAGE / "pipeline" / "sql"}


def find(kind: str, name: str, version: int) -> Path:
    """The path of ``<name>_vNN.sql``, in whichever app it is. ``kind``: functions or tables."""
    places = [folder / kind / f"{name}_v{version:02}.sql" for folder in FOLDERS.values()]
    return next((path for path in places if path.exists()), places[0])


def read(kind: str, name: str, version: int) -> str:
    """The text of ``<name>_vNN.sql``. ``kind``: functions or tables."""
    return find(kind, name, version).read_text(encoding="utf-8")


def paths(kind: str, apps: Iterable[str] = tuple(FOLDERS)) -> list[Path]:
    """All files of these apps, by default of all. ``kind``: functions or tables."""
    return [path for app in apps for path in sorted((FOLDERS[app] / kind).glob("*.sql"))]


def latest_functions(apps: Iterable[str] = tuple(FOLDERS)) -> dict[str, int]:
    """Every function of these apps and the newest version that this release ships."""
    versions: dict[str, int] = {}
    for path in paths("functions", apps):
        name, _, version = path.stem.rpartition("_v")
        versions[name] = max(int(version), versions.get(name, 0))
    return versions


def body(name: str, version: int) -> str:
    """What PostgreSQL keeps in ``pg_proc.prosrc``: the text between the dollar quotes."""
    match = re.search(r"AS \$\$(.*)\$\$;", read("functions", name, version), re.DOTALL)
    if match is None:
        raise ValueError(f"{name}_v{version:02}.sql has no body between AS $$ and $$;")
    return match[1]


def is_definer(name: str, version: int) -> bool:
    """Whether the function runs with the rights of its owner."""
    return "\nSECURITY DEFINER\n" in read("functions", name, version)
