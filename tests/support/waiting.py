"""Wait for something that another session, thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# Seconds. The machine may have much else to do: only what does not happen at all takes so long.
PATIENCE_SECONDS = 200


def eventually(
    condition: Callable[[], T],
    *,
    seconds: float = PATIENCE_SECONDS,
    every: float = 0.01,
    problem: str = "it did not happen",
) -> T:
    """Call ``condition`` until its result is true, and return that result. Fails after so many ``seconds``.

    every     seconds between two calls
    problem   the text of the failure
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, problem
        time.sleep(every)
    return found
