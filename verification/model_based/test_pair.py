"""Two sessions, each with a transaction of its own at times: a call waits only where the documentation says so."""

from __future__ import annotations

import psycopg
import pytest

from .pair import PairMachine
from .sql import Queue
from .test_machine import LONG, run

IMPATIENT = "-c lock_timeout=50ms"


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize(("examples", "same"), [(90, True), (10, False)], ids=["the same", "of today"])
def test_two_sessions_see_and_wait_as_the_model_says(model_url: str, examples: int, same: bool) -> None:
    with (
        psycopg.connect(model_url, autocommit=True, options=IMPATIENT) as one,
        psycopg.connect(model_url, autocommit=True, options=IMPATIENT) as other,
    ):
        run(PairMachine, examples, same=same, queues=(Queue(one), Queue(other)))
