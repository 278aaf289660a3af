"""Dead letters chosen by a condition in Spark SQL and put back; each a tenth of the rows, half of what there is."""

from __future__ import annotations

import time
from statistics import median

from django_pgqueue.spark.redrive.job import redrive
from django_pgqueue.spark.session import session
from django_pgqueue.spark.source import Source

from .database import DATABASE, archive

CHANNELS = 200
FILL = """
INSERT INTO pgqueue_dead_letter (
    id, queue, channel, handler, payload, priority, attempts, max_attempts, created_at, dequeue_at, leased_at, dead_at,
    reason)
SELECT i, 'default', 'tenant ' || i %% 200, 'shop.confirm_order',
    jsonb_build_object('order', i, 'customer', md5(i::text), 'note', md5((i + 1)::text) || md5((i + 2)::text)),
    0, 5, 5, now(), now(), now(), now(), CASE i %% 2 WHEN 0 THEN 'failed' ELSE 'rejected' END
FROM generate_series(1, %s::bigint) AS i
"""


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report. The first round warms up and does not count."""
    letters = max(rows // 10, 1)
    seconds = []
    with archive(0) as cluster, session("benchmark", "local[*,4]"), cluster.connect(DATABASE) as database:
        source = Source.parse(cluster.url(DATABASE))
        database.execute(
            "SELECT pgqueue_channel_set('default', 'tenant ' || i) FROM generate_series(0, %s) AS i", [CHANNELS - 1]
        )
        for number in range(rounds + 1):
            database.execute("TRUNCATE pgqueue_message, pgqueue_arrival, pgqueue_lane, pgqueue_dead_letter")
            database.execute(FILL, [2 * letters])
            database.execute("VACUUM (ANALYZE) pgqueue_dead_letter")
            database.execute("CHECKPOINT")
            began = time.perf_counter()
            tally = redrive("reason = 'failed'", source)
            took = time.perf_counter() - began
            assert tally.redriven == letters
            assert database.execute("SELECT count(*) FROM pgqueue_message").fetchone() == (letters,)
            if number:
                seconds.append(took)
    times = ", ".join(f"{value:.2f}" for value in seconds)
    return [f"redrive of {letters:,} of {2 * letters:,} dead letters: {median(seconds):.2f} s ({times} s)"]
