"""Another queue beside ours: it works as it does in its own hands, and where it is missing the table says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from verification.benchmarks import scripted
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.contest import Contest, Result
from verification.benchmarks.design import Design
from verification.benchmarks.measure import drain, mixed
from verification.benchmarks.peers.environments import PipEnvironment
from verification.benchmarks.plan import QUICK, Plan, designs
from verification.benchmarks.report import table
from verification.benchmarks.situation import Situation
from verification.benchmarks.workloads import WORKLOADS
from verification.benchmarks.writes import writes

PLAN = Plan(cast(Cluster, None), 1, 1, 1_000, QUICK)
SHARED = ("drain", "drain-single", "mixed", "mixed-batch", "sizes", "writes")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if not scripted.ENVIRONMENT.installed():
        pytest.skip("pgmq is not installed: python -m verification.benchmarks peers --install")
    with throw_away() as started:
        for design in scripted.present():
            design.prepare(started)
        yield started


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted, "ENVIRONMENT", PipEnvironment(("pgmq==0",)))


@pytest.mark.parametrize("design", [scripted.ARCHIVE, scripted.DELETE], ids=lambda design: design.name)
def test_producers_and_consumers_of_pgmq_get_on(cluster: Cluster, design: Design) -> None:
    one = mixed(cluster, design, channels=1, seconds=1, producers=2, consumers=2)
    ten = mixed(cluster, design, channels=1, seconds=1, batch=10, producers=2, consumers=2, payload='{"n": "x"}')
    assert one.value > 0
    assert ten.value > 0


@pytest.mark.parametrize(
    ("design", "kept"), [(scripted.ARCHIVE, 3_000), (scripted.DELETE, 0)], ids=["archive", "delete"]
)
def test_a_drained_message_of_pgmq_is_in_its_archive_or_gone(cluster: Cluster, design: Design, kept: int) -> None:
    batches: dict[str, Any] = {"channels": 1, "backlog": 3_000, "clients": 1, "seconds": 20}
    assert drain(cluster, design, batch=5, **batches).value > 0
    with cluster.connect(f"run_{design.name}") as connection:
        left = "SELECT (SELECT count(*) FROM pgmq.q_benchmark), (SELECT count(*) FROM pgmq.a_benchmark)"
        assert connection.execute(left).fetchone() == (0, kept)


def test_the_archive_of_pgmq_is_written_once_more(cluster: Cluster) -> None:
    archive, delete = (
        writes(cluster, design, Situation("test"), seconds=1) for design in (scripted.ARCHIVE, scripted.DELETE)
    )
    assert archive.remarks["inserted"] == pytest.approx(2, abs=0.01)
    assert delete.remarks["inserted"] == pytest.approx(1, abs=0.01)
    assert archive.remarks["dead rows"] == delete.remarks["dead rows"] == pytest.approx(2, abs=0.01)
    assert min(archive.value, delete.value) > 0


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize("name", SHARED)
def test_a_queue_that_is_not_installed_is_in_the_table_in_capitals(name: str) -> None:
    contests: list[Contest] = [contest for contest in WORKLOADS[name](PLAN) if "1,000 channels" not in contest.title]
    assert contests
    for contest in contests:
        assert scripted.NAME not in contest.contestants
        text = table([Result(replace(contest, contestants={}), ())], markdown=True)
        assert f"| {contest.title} | pgmq | NOT INSTALLED: python -m verification.benchmarks peers --install |" in text


@pytest.mark.parametrize("name", ["drain", "drain-single", "mixed", "mixed-batch", "writes"])
def test_a_queue_without_tenants_is_left_out_of_many_channels_and_that_is_said(name: str) -> None:
    (contest,) = (contest for contest in WORKLOADS[name](PLAN) if "1,000 channels" in contest.title)
    assert not {"pgmq", "pgmq_delete"} & set(contest.contestants)
    assert f"| pgmq | {scripted.NO_TENANTS} |" in table([Result(contest, ())], markdown=True)


def test_an_installed_queue_takes_part_on_one_channel() -> None:
    if not scripted.ENVIRONMENT.installed():
        pytest.skip("pgmq is not installed: python -m verification.benchmarks peers --install")
    for name in SHARED:
        assert {"pgmq", "pgmq_delete"} <= set(WORKLOADS[name](PLAN)[0].contestants)
    assert {"pgmq", "pgmq_delete"} <= {design.name for design in designs(PLAN)}
