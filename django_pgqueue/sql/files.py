"""The SQL files of this package: where they are, and what a function's body is."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def read(folder: str, name: str, version: int) -> str:
    """The text of ``<folder>/<name>_vNN.sql``."""
    return (HERE / folder / f"{name}_v{version:02}.sql").read_text(encoding="utf-8")


def latest_functions() -> dict[str, int]:
    """Every function and the newest version that this release ships."""
    versions: dict[str, int] = {}
    for path in sorted((HERE / "functions").glob("*.sql")):
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
