"""The position of each mark; and a name never leaves its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from django_pgqueue import charts
from django_pgqueue.charts import Series
from django_pgqueue.charts.frame import BOTTOM_PX, HEIGHT_PX, TOP_PX
from tests.support.cases import cases

HOSTILE = """</title></text><script>alert("1")</script>&'\u202e\x07"""
GROUND = HEIGHT_PX - BOTTOM_PX


def hours(count: int) -> list[datetime]:
    return [datetime(2026, 11, 21, tzinfo=UTC) + timedelta(hours=number) for number in range(count)]


def parsed(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart.replace("&#10;", "\n"))


def paths(chart: str, style: str) -> list[list[tuple[float, float]]]:
    """The points of each path of this class, moves along one axis left out."""
    found = [node.get("d") for node in parsed(chart).iter("path") if style in node.get("class", "").split()]
    return [[(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)] for path in found]


def test_a_line_goes_through_its_values() -> None:
    [line] = paths(charts.line_plot("waiting", hours(3), [Series("all", [0, 4, 2])]), "pgq-line")

    assert [y for _, y in line] == [GROUND, TOP_PX, (GROUND + TOP_PX) / 2]
    assert line[1][0] - line[0][0] == pytest.approx(line[2][0] - line[1][0], abs=0.2)


def test_a_line_is_broken_where_there_is_nothing_and_a_lonely_value_is_a_dot() -> None:
    chart = charts.line_plot("waiting", hours(6), [Series("all", [1, 2, None, 3, None, 4])])

    assert [len(line) for line in paths(chart, "pgq-line")] == [2]
    assert len(list(parsed(chart).iter("circle"))) == 2


def test_a_band_fills_what_is_between_two_lines() -> None:
    chart = charts.line_plot("waiting", hours(2), [Series("p50", [1, 1]), Series("p95", [4, 2])], band=(0, 1))

    [band] = paths(chart, "pgq-band")
    low, high = paths(chart, "pgq-line")
    assert band == low + high[::-1]


def test_a_stack_stands_on_what_is_below_it() -> None:
    chart = charts.stack("throughput", hours(1), [Series("completed", [3]), Series("dead", [1])])

    [first], [second] = ([node.get("d") for node in parsed(chart).iter("path") if style in node.get("class", "")]
                         for style in ("pgq-1", "pgq-2"))  # fmt: skip
    top = float(re.search(r"V([\d.]+)", first)[1])
    assert top == pytest.approx(GROUND - (GROUND - TOP_PX) * 3 / 4, abs=0.1)
    assert re.match(r"M[\d.]+ ([\d.]+)V([\d.]+)", second).groups() == (f"{top:g}", str(TOP_PX))


def test_one_among_thousands_can_be_seen() -> None:
    chart = charts.stack("throughput", hours(1), [Series("completed", [1_000_000]), Series("dead", [1])])

    bottom, top = re.search(r"pgq-2\" d=\"M[\d.]+ ([\d.]+)V([\d.]+)", chart).groups()
    assert float(bottom) - float(top) >= 0.6


def test_the_tooltip_of_a_bucket_tells_its_values() -> None:
    chart = charts.stack("throughput", hours(2), [Series("done", [3, 0])], line=Series("enqueued", [5, None]))

    texts = [node.findtext("title") for node in parsed(chart).iter("rect")]
    assert texts == ["21 Nov 2026 00:00 UTC\ndone: 3\nenqueued: 5", "21 Nov 2026 01:00 UTC\ndone: 0\nenqueued: –"]


def test_series_after_the_eighth_are_grey() -> None:
    chart = charts.stack("many", hours(1), [Series(f"s{number}", [1]) for number in range(10)])

    assert chart.count("pgq-area pgq-rest") == 2


NOTHING: list[Callable[[], str]] = [
    lambda: charts.line_plot("a", [], []),
    lambda: charts.line_plot("a", hours(2), [Series("x", [None, None])]),
    lambda: charts.stack("a", hours(1), [Series("x", [None])]),
]


@cases("chart", NOTHING)
def test_without_data_it_says_so(chart: Callable[[], str]) -> None:
    assert "Nothing in this period." in parsed(chart()).itertext()


def test_a_sparkline_without_values_is_nothing() -> None:
    assert charts.sparkline("a", [None]) == ""


@pytest.mark.parametrize(("share", "width"), [(0.5, "28"), (0.001, "2"), (7.0, "56")])
def test_a_meter_is_filled_up_to_its_share_and_never_beyond(share: float, width: str) -> None:
    assert f'<rect class="pgq-area pgq-late" width="{width}"' in charts.meter("limit", share, style="pgq-late")


def test_an_empty_meter_shows_its_whole_length() -> None:
    assert re.findall(r"<rect class=\"([\w -]+)\"", charts.meter("limit", 0)) == ["pgq-track"]


HOSTILE_CHARTS: list[Callable[[], str]] = [
    lambda: charts.line_plot(HOSTILE, hours(2), [Series(HOSTILE, [1, 2]), Series("b", [0, 1])], note=HOSTILE),
    lambda: charts.stack(HOSTILE, hours(2), [Series(HOSTILE, [1, 2])], line=Series(HOSTILE, [1, 2], "pgq-over")),
    lambda: charts.sparkline(HOSTILE, [1, 2]),
    lambda: charts.meter(HOSTILE, 0.5),
]


@cases("chart", HOSTILE_CHARTS)
def test_a_hostile_name_is_text_and_nothing_needs_script_or_style(chart: Callable[[], str]) -> None:
    drawn = chart()

    elements = list(parsed(drawn).iter())
    assert not {"script", "style"} & {element.tag for element in elements}
    assert not [name for element in elements for name in element.attrib if name == "style" or name.startswith("on")]
    assert not re.search("[\u202e\x07]", drawn)
    assert any(HOSTILE[:20] in texts for texts in parsed(drawn).itertext())


@cases("chart", HOSTILE_CHARTS[:4])
def test_a_chart_has_a_name_and_a_description(chart: Callable[[], str]) -> None:
    drawn = parsed(chart())
    svg = drawn if drawn.tag == "svg" else next(drawn.iter("svg"))

    texts = {node.get("id"): node.text for node in svg if node.get("id")}
    assert set(svg.get("aria-labelledby").split()) == set(texts)
    assert all(texts.values())


def test_every_class_that_is_used_is_styled() -> None:
    used = set()
    for chart in HOSTILE_CHARTS:
        used |= {word for classes in re.findall(r'class="([^"]+)"', chart()) for word in classes.split()}

    assert used
    assert all(re.search(rf"\.{word}\b", charts.stylesheet()) for word in used)
