"""Wait between the producer's looks: a look costs about the same for one message as for several."""

from __future__ import annotations

import time

# The time from one look to the next while messages trickle in. The processes of a supervisor share it: each looks less
# often, all of them together as often as one would.
REST_SECONDS = 0.003
# A look that finds more messages than this without filling it shows a load under which looks are a large part of
# the server's work. The next one waits for some times as long as this one took, which is long where processors are
# short, and at most LONGEST_REST_SECONDS for each process.
MANY_MESSAGES = 12
TIMES_OF_A_LOOK = 4
LONGEST_REST_SECONDS = 0.012
# The time between the look for one message and that for more: only one thread runs at a time, and this leaves the turn
# to the thread of the handler.
HANDLER_FIRST_SECONDS = 0.0003


class Rest:
    """Hold the time of the producer's next look. ``processes``: how many processes of the supervisor look."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._until = 0.0
        self._has_rested = False
        self.shortest = REST_SECONDS * processes

    def take(self) -> bool:
        """Wait for the rest of the time. Returns whether there was a rest since the last look."""
        left = self._until - time.monotonic()
        if left > 0:
            time.sleep(left)
        rested, self._has_rested = self._has_rested or left > 0, False
        return rested

    def looked(self, found: int, wanted: int, looked_at: float, *, single: bool) -> None:
        """Record a look, which decides the time of the next one.

        ``found``, ``wanted``: how many messages it returned, and for how many it asked. ``looked_at``:
        time.monotonic() when it began. ``single``: it answered a notification by asking for one message. If it got
        that, this waits at once, before the producer does anything else.
        """
        self._until = 0.0
        if found < wanted:
            self._until = looked_at + self.seconds(found, time.monotonic() - looked_at)
        elif single and found:
            time.sleep(HANDLER_FIRST_SECONDS)
            self._has_rested = True

    def seconds(self, found: int, took: float) -> float:
        """Return the time from the start of a look that found fewer messages than it wanted to the next one.

        ``found``: how many messages it returned. ``took``: its seconds.
        """
        if found <= MANY_MESSAGES:
            return self.shortest
        return max(self.shortest, min(TIMES_OF_A_LOOK * took, LONGEST_REST_SECONDS) * self._processes)
