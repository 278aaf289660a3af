"""The options of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RANGE_BYTES = 64 * 1024 * 1024  # what one statement reads, about half a second


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of an export.

    ``without``: columns that are left empty; None: as in the last export. ``rescan``: compare all days, and write those
    that differ again. ``adopt``: continue although the database, or the state of the lake, is not the expected one.
    """

    master: str | None = None
    memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] | None = None
    rescan: bool = False
    adopt: bool = False
    range_bytes: int = RANGE_BYTES
