"""A commit: the files that were added and removed, and the whole state after it. The newest commit has all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished Parquet file in a staging folder, to be committed to a partition such as ``day=2026-11-21``.

    ``sha256``: the digest of its content, in hexadecimal. ``more``: other data that the commit keeps about it, in
    JSON's types.
    """

    table: str
    partition: str
    path: Path
    rows: int
    bytes: int
    sha256: str
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of a commit, at ``path`` in the lake; it is at ``staged`` until it is moved.

    ``sha256``: the digest of its content; "" in commits of early versions.
    """

    table: str
    partition: str
    name: str
    rows: int
    bytes: int
    staged: str = ""
    sha256: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Return the path relative to the lake."""
        return f"{self.table}/{self.partition}/{self.name}"

    @property
    def day(self) -> date:
        return day_of(self.partition)


@dataclass(frozen=True, slots=True)
class Commit:
    """A change of the lake, and the state after it.

    ``removed``: the paths of replaced files. ``exchanged``: the folders
    of partitions that are replaced as a whole. ``merged``: it stands for all commits up to it, too, and lists all files
    that the lake had after it.
    """

    number: int
    kind: str
    at: str
    files: tuple[LakeFile, ...] = ()
    removed: tuple[str, ...] = ()
    exchanged: tuple[str, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    merged: bool = False

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def vanished(self) -> set[str]:
        """Return the paths of files that are not there any more after this commit."""
        return set(self.removed) - {file.path for file in self.files}

    def as_json(self) -> dict[str, Any]:
        """Return the commit as its file has it."""
        return {
            "number": self.number,
            "kind": self.kind,
            "at": self.at,
            "files": [
                {
                    "table": file.table,
                    "partition": file.partition,
                    "name": file.name,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "staged": file.staged,
                    "sha256": file.sha256,
                    **({"more": file.more} if file.more else {}),
                }
                for file in self.files
            ],
            "removed": list(self.removed),
            **({"exchanged": list(self.exchanged)} if self.exchanged else {}),
            **({"merged": True} if self.merged else {}),
            "state": self.state,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Commit:
        """Read a commit from the content of its file. Raises KeyError or TypeError if something is missing."""
        return cls(
            number=content["number"],
            kind=content["kind"],
            at=content["at"],
            files=tuple(LakeFile(**file) for file in content["files"]),
            removed=tuple(content["removed"]),
            exchanged=tuple(content.get("exchanged", ())),
            state=content["state"],
            merged=content.get("merged", False),
        )


NOTHING = Commit(0, "none", "")


def day_of(partition: str) -> date:
    """Return the day of a partition such as ``day=2026-11-21`` or ``grain=hour/day=2026-11-21``."""
    return date.fromisoformat(partition.rpartition("day=")[2])
