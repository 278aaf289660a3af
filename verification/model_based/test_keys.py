"""Two sessions, and messages of order keys: one of a key is delivered at a time, in order, and none waits for ever."""

from __future__ import annotations

import psycopg
import pytest

from .key_machine import KeyMachine
from .sql import Queue
from .test_machine import LONG, run
from .test_pair import IMPATIENT


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize(("examples", "same"), [(80, True), (16, False)], ids=["the same", "of today"])
def test_the_messages_of_a_key_come_one_after_the_other(model_url: str, examples: int, same: bool) -> None:
    with (
        psycopg.connect(model_url, autocommit=True, options=IMPATIENT) as one,
        psycopg.connect(model_url, autocommit=True, options=IMPATIENT) as other,
    ):
        run(KeyMachine, examples, same=same, queues=(Queue(one), Queue(other)))
