"""The list. Each takes one guard away, as a hurried change might."""

from __future__ import annotations

from . import batches, leases, limits, order, steps
from .defect import Defect

DEFECTS: tuple[Defect, ...] = (*leases.DEFECTS, *limits.DEFECTS, *order.DEFECTS, *batches.DEFECTS, *steps.DEFECTS)

__all__ = ["DEFECTS", "Defect"]
