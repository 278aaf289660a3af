"""What may be asked of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RANGE_BYTES = 64 * 1024 * 1024  # what one statement reads, about half a second


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """``without``: columns that are left empty, None: as before. ``rescan``: compare all days, write anew those that
    differ. ``adopt``: go on although the database, or the state of the lake, is another one than expected."""

    master: str | None = None
    memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] | None = None
    rescan: bool = False
    adopt: bool = False
    range_bytes: int = RANGE_BYTES
