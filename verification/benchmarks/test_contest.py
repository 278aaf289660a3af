from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from verification.benchmarks.contest import Contest, Target, play
from verification.benchmarks.machine import Others
from verification.benchmarks.measure import Figures
from verification.benchmarks.report import table


class NobodyElse(Others):
    def __init__(self) -> None:
        super().__init__(postmaster=0)

    def wait_until_quiet(self, patience: float) -> None: ...

    def start(self) -> None: ...

    def cores(self) -> float:
        return 0.0


def contest(log: list[str], **speeds: list[float]) -> Contest:
    def contestant(name: str) -> Callable[[], Figures]:
        runs = iter(speeds[name])

        def run() -> Figures:
            log.append(name)
            return Figures(next(runs), remarks={"enqueued/s": 3.0})

        return run

    return Contest("work", "messages/s", "slow", {name: contestant(name) for name in speeds}, (Target("fast", 2.0),))


def test_contestants_alternate_and_change_the_order_every_round() -> None:
    log: list[str] = []
    play(contest(log, slow=[1, 1, 1], fast=[1, 1, 1]), 3, NobodyElse(), patience=0)
    assert log == ["slow", "fast", "fast", "slow", "slow", "fast"]


def test_the_ratio_is_the_median_of_the_ratios_of_one_round() -> None:
    # The second round fell into a busy minute: both were slow, and their ratio says so.
    result = play(contest([], slow=[100, 10, 100], fast=[250, 25, 150]), 3, NobodyElse(), patience=0)
    slow, fast = result.standings
    assert (slow.value, slow.ratio) == (100, None)
    assert (fast.value, fast.ratio, fast.met(*fast.targets)) == (150, 2.5, True)


def test_a_missed_target_is_shown() -> None:
    result = play(contest([], slow=[100], fast=[150]), 1, NobodyElse(), patience=0)
    text = table([result], markdown=True)
    assert "| work | fast | 150 messages/s | 150 to 150 | 1.50x | ≥ 2x MISSED | enqueued/s 3.00" in text


def test_a_target_may_be_a_figure_of_its_own_or_an_upper_bound() -> None:
    assert Target("x", at_least=50_000, absolute=True).met_by(50_000)
    assert not Target("x", at_most=1.5).met_by(1.6)
    assert str(Target("x", at_most=1.5)) == "≤ 1.5x"


def test_a_target_may_be_about_a_remark() -> None:
    played = contest([], slow=[100], fast=[150])
    enough = Target("fast", at_least=3, remark="enqueued/s")
    too_few = Target("fast", at_least=4, remark="enqueued/s")
    text = table([play(replace(played, targets=(enough, too_few)), 1, NobodyElse(), patience=0)], markdown=True)
    assert "enqueued/s ≥ 3 met; enqueued/s ≥ 4 MISSED" in text


def test_contestants_can_be_left_out_the_baseline_too() -> None:
    log: list[str] = []
    alone = contest(log, slow=[100], fast=[150]).only("work · fa")
    assert alone is not None
    text = table([play(alone, 1, NobodyElse(), patience=0)], markdown=True)
    assert log == ["fast"]
    assert "| work | fast | 150 messages/s | 150 to 150 |  | ≥ 2x not measured |" in text
    assert alone.only("slow") is None
