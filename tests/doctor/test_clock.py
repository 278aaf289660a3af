from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.doctor.conftest import Examine
from tests.support.paths import REPOSITORY
from tests.support.sql import sql


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("offset", "seconds"), [("+1h", 3600), ("-1h", -3600), (None, None)])
def test_this_hosts_clock_is_not_the_databases(
    environment: dict[str, str], faketime: str, offset: str | None, seconds: float | None
) -> None:
    wrong = {"LD_PRELOAD": faketime, "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if offset else {}
    done = subprocess.run(
        [sys.executable, "manage.py", "pgqueue", "doctor", "--only", "clock", "--json", "--skip-checks"],
        cwd=REPOSITORY / "testproject", env={**environment, **wrong}, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    report = json.loads(done.stdout)
    if seconds is None:
        assert (done.returncode, report["findings"]) == (0, []), done.stderr
    else:
        [finding] = report["findings"]
        assert (done.returncode, finding["code"], finding["severity"]) == (1, "clock_differs", "warning")
        assert finding["facts"]["seconds"] == pytest.approx(seconds, abs=30)


def test_the_databases_clock_has_gone_back(found: Examine) -> None:
    assert found("clock") == {}
    sql("UPDATE pgqueue_floor SET ticked_at = clock_timestamp() + interval '1 hour'")
    assert found("clock")["clock_went_back"].facts["seconds"] > 3500
    sql("UPDATE pgqueue_floor SET ticked_at = clock_timestamp()")
    assert found("clock") == {}
