"""Read the Spark SQL of this folder. Its queries get tables as frames, and parameters as values."""

from __future__ import annotations

from pathlib import Path


def query(name: str) -> str:
    """Return the text of ``<name>.sql`` in this folder."""
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
