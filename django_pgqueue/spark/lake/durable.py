"""Write files atomically, so that they are whole or absent even after a power loss."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def sync_to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def create_json(path: Path, content: dict[str, Any], temporary: Path) -> None:
    """Make a JSON file that must not exist yet. Raises FileExistsError when it exists."""
    _write(temporary, json.dumps(content, indent=1))
    try:
        # Unlike a rename, a link does not replace what is there.
        os.link(temporary, path)
    finally:
        temporary.unlink()
    sync_to_disk(path.parent)


def replace(path: Path, text: str) -> None:
    """Write a text file, in place of an existing one if there is one: a reader sees the old or the new one, whole."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    try:
        _write(temporary, text)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_to_disk(path.parent)


def _write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
