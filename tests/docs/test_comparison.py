"""The comparison says what was measured: its figures are those of the page on performance."""

from __future__ import annotations

import re

from tests.support.markdown import page, section


def test_measured_figures_are_those_of_the_page_on_performance() -> None:
    rows = re.findall(r"^\|.*\|$", section(page("docs/explanation/comparison.md"), "How fast"), re.MULTILINE)
    figures = {figure for row in rows[2:] for figure in re.findall(r"\d[\d,.]*\d(?=/s| to | ms)", row)}
    measured = set(re.findall(r"\d[\d,.]*\d", section(page("docs/explanation/performance.md"), "Other queues")))

    assert len(figures) > 10
    assert figures <= measured
