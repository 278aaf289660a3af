"""List defects of breakers, which tests/concurrency/test_breaker_defects.py must notice."""

from __future__ import annotations

from verification.chaos.sabotage.defects import Defect

DEFECTS = (
    Defect("all messages try at once", "limit_room", "THEN greatest(1 - o.places, 0)", "THEN 100"),
    Defect("the place of a try is not kept", "hold_limit", "v_limit.open_until IS NOT NULL\n        OR", ""),
    Defect("a retry is no failure", "retry", " WHERE v_ended IS NOT NULL", " WHERE false"),
    Defect("a success does not close it", "record_outcomes", "WHEN s.open THEN t.tried", "WHEN s.open THEN false"),
    Defect(
        "a try that fails closes it", "breaker_until", "WHEN v_last.failed THEN greatest", "WHEN false THEN greatest"
    ),
    Defect("an open breaker is not asked", "watch_breaker", "IF v_breaker.open_until IS NULL AND", "IF"),
    Defect("a success does not begin the count anew", "complete", "IF v_channel.metered & 2 = 2 THEN", "IF false THEN"),
)
