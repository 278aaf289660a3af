"""A history can be read again, also after a kill in the middle of a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cases import cases
from verification.chaos.checker import check
from verification.chaos.driver.faults import Faults
from verification.chaos.driver.plan import TIERS, schedule
from verification.chaos.driver.report import report
from verification.chaos.history import Recorder, load
from verification.chaos.story import Story


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text('{"seed": 3}')
    return tmp_path


def test_calls_end_as_they_were_answered(folder: Path) -> None:
    recorder = Recorder(folder, "producer")
    recorder.invoke("enqueue", keys=["a"]).ok(ids=[1])
    recorder.invoke("enqueue", keys=["b"]).fail("channel full")
    recorder.invoke("enqueue", keys=["c"]).unknown("the connection broke")
    recorder.invoke("enqueue", keys=["d"])
    recorder.info("fault", kind="kill")
    recorder.close()
    history = load(folder)
    assert [(op.args["keys"], op.result) for op in history.ops] == [
        (["a"], "ok"), (["b"], "fail"), (["c"], "unknown"), (["d"], "unknown"),
    ]  # fmt: skip
    assert history.ops[0].ended is not None
    assert history.ops[0].began <= history.ops[0].ended
    assert history.ops[3].ended is None
    assert [(info.process, info.verb, info.fields) for info in history.infos] == [
        ("producer", "fault", {"kind": "kill"})
    ]


def test_half_a_line_is_the_last_of_a_killed_process(folder: Path) -> None:
    recorder = Recorder(folder, "worker")
    recorder.invoke("handle", message=1)
    file = folder / "client-worker.jsonl"
    whole = file.read_text()
    file.write_text(whole + whole[:20])
    assert len(load(folder).ops) == 1
    file.write_text(whole[:20] + "\n" + whole)
    with pytest.raises(ValueError, match=r"client-worker\.jsonl, line 1: no JSON"):
        load(folder)


def test_rows_come_in_the_order_of_commits(folder: Path) -> None:
    rows = [
        {"seq": 1, "xid": 7, "committed": 30, "at": 10, "event": "created", "message": 1},
        {"seq": 2, "xid": 8, "committed": 20, "at": 15, "event": "created", "message": 2},
    ]
    (folder / "audit.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row.message for row in load(folder).rows] == [2, 1]


def test_a_seed_gives_the_same_faults_again() -> None:
    tier = TIERS["ci"]
    assert schedule(tier, 5) == schedule(tier, 5)
    assert [fault.dice for fault in schedule(tier, 5)] == [fault.dice for fault in schedule(tier, 5)]
    assert [fault.at for fault in schedule(tier, 5)] != [fault.at for fault in schedule(tier, 6)]


@cases("name", TIERS)
def test_a_tier_has_the_faults_that_it_promises(name: str) -> None:
    tier = TIERS[name]
    planned = schedule(tier, 1)
    assert {kind: sum(fault.kind == kind for fault in planned) for kind in tier.faults} == tier.faults
    assert all(callable(getattr(Faults, kind.replace(" ", "_"))) for kind in tier.faults)
    assert 0 < planned[0].at < planned[-1].at < tier.seconds


def test_a_report_says_what_zero_means() -> None:
    story = Story()
    story.run |= {"seed": 3, "faults": {"kill": 200, "crash": 3}}
    story.create(1)
    story.serve(1)
    text = report(story.history(), check(story.history()))
    assert "0 violations. At 95 %, by the rule of three: 0 of 1: under 3.0e+00 for each message" in text
    assert "0 of 200: under 1.5e-02 for each SIGKILL of a worker; 0 of 3: under 1.0e+00 for each crash" in text


def test_a_report_of_violations_names_them() -> None:
    story = Story()
    story.run |= {"seed": 3}
    story.create(1)
    text = report(story.history(), check(story.history()))
    assert "- I2: message 1 has no outcome: last seen as created in 101" in text
    assert text.endswith("1 violations.")
