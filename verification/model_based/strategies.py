"""The strategies of the machine: few names, numbers and moments, so that they meet."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from .states import SECOND

DAY = 86_400 * SECOND
FORGED = str(UUID(int=7))
PLACES = [("a", "q"), ("b", "q"), ("c", "q"), ("d", "q"), ("a", "r")]

places = st.sampled_from(PLACES)
dues = st.sampled_from([None, 0, 1, 1000, SECOND, 60 * SECOND, -SECOND])
delays = st.sampled_from([None, 0, 1, SECOND, 30 * SECOND])
leases = st.sampled_from([1, 1000, SECOND, 15 * SECOND])
reasons = st.sampled_from(["", "enough"])
numbers = st.integers(0, 11)
whose = st.lists(
    st.tuples(numbers, st.sampled_from(["current", "current", "current", "stale", "forged", "crossed"])),
    min_size=1, max_size=3,
)  # fmt: skip
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_concurrency": st.sampled_from([None, 1, 2]),
        "max_size": st.sampled_from([None, 1, 3, 6]),
        "full_policy": st.sampled_from(["error", "drop", "drop_oldest", "drop_oldest", "replace"]),
        "release_interval": st.sampled_from([None, 1, SECOND, 10 * SECOND]),
        "release_burst": st.sampled_from([1, 3]),
        "weight": st.sampled_from([1, 2, 5]),
        "archive": st.sampled_from([None, "full", "outcome", "none"]),
        "ordered": st.sampled_from([True, True, False]),
    },
)
limited = st.sampled_from(
    [{}, {"max_concurrency": 1}, {"max_concurrency": 2}, {"release_interval": SECOND}, {"ordered": True}]
)
drafts: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    place=places,
    priority=st.sampled_from([0, 0, -1, 5]),
    due=dues,
    max_attempts=st.sampled_from([5, 5, 1, 1, 2, 2, 0]),
    policy=st.sampled_from([(SECOND, 1.0, None), (None, None, None), (2 * SECOND, 3.0, 4 * SECOND)]),
    key=st.sampled_from([None, None, None, "k", "l"]),
)
