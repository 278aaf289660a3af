from __future__ import annotations

from django_pgqueue.pipeline.models import Lake
from tests.doctor.conftest import Examine
from tests.support.sql import sql


def test_days_that_a_lake_lost_are_found_until_they_are_forgotten(found: Examine) -> None:
    Lake.objects.create(name="whole", path="/srv/whole", exported_xid=1)
    assert found("lakes") == {}
    Lake.objects.create(
        name="nightly", path="/srv/nightly", exported_xid=1, lost={"2026-11-23": 7, "2026-11-21": 1_000}
    )
    Lake.objects.create(name="other", path="/srv/other", exported_xid=1, lost={"2026-11-21": 1})

    finding = found("lakes")["lake_lost"]

    assert finding.severity.word == "warning"
    assert finding.problem == (
        "Retention dropped messages before a lake had them: nightly lacks 1,007 messages (2 days, 2026-11-21 to "
        "2026-11-23); other lacks 1 message (2026-11-21)."
    )
    assert "KEEP_UNTIL_EXPORTED" in finding.action
    assert finding.facts["lakes"] == 2
    assert finding.facts["shown"][0] == {"lake": "nightly", "messages": 1_007, "days": ["2026-11-21", "2026-11-23"]}
    sql("UPDATE pgqueue_lake SET lost = '{}' WHERE name = 'nightly'")
    sql("DELETE FROM pgqueue_lake WHERE name = 'other'")
    assert found("lakes") == {}
