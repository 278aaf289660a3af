"""The command, on lakes whose outcome can be computed by hand."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_pgqueue.spark import simulate
from tests.spark.simulate.lakes import channel, make_lake, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NASTY = "a/b=c\n\x1b[31m"


def command(*arguments: str) -> int:
    parser = ArgumentParser(exit_on_error=False)
    simulate.add_arguments(parser)
    return simulate.run(parser.parse_args(arguments))


@pytest.fixture
def tenants(lake: Path, spark: SparkSession) -> Path:
    """One slot, ten seconds a message: a has ten messages at once, b comes a second later. It is fresh, and waits 9."""
    served = [("a", 0, 0), (NASTY, 1, 10), *(("a", 0, 10 + n * 10) for n in range(1, 9)), ("a", 0, 100)]
    rows = [row(created=created, leased=leased, settled=leased + 10, channel=name) for name, created, leased in served]
    make_lake(lake, archive=rows, channel=[channel("a"), channel(NASTY)])
    return lake


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert command(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_past_is_replayed_beside_the_changed_settings(tenants: Path, capsys: pytest.CaptureFixture[str]):
    others = ["--set", "a.max_concurrency=1", "--workers", "2"]
    found = outcome(capsys, "--lake", str(tenants), "--concurrency", "1", *others)
    was, changed = found["replayed"], found["changed"]
    assert was["capacity"] == {"workers": 1, "concurrency": 1}
    assert changed["capacity"] == {"workers": 2, "concurrency": 1}
    assert was["channels"][NASTY] == {"messages": 1, "actual": [9] * 3, "simulated": [9] * 3, "left": 0}
    # With a slot of its own it does not wait at all; a has one slot as before.
    assert changed["channels"][NASTY]["simulated"] == [0] * 3
    assert changed["channels"]["a"]["simulated"] == [40, 90, 90]
    assert (was["limits"]["a"]["max_concurrency"], changed["limits"]["a"]["max_concurrency"]) == (None, 1)


def test_the_concurrency_of_the_workers_is_an_option(tenants: Path, capsys: pytest.CaptureFixture[str]):
    found = outcome(capsys, "--lake", str(tenants), "--concurrency", "2")
    assert "changed" not in found
    assert found["replayed"]["capacity"] == {"workers": 1, "concurrency": 2}
    assert outcome(capsys, "--lake", str(tenants))["replayed"]["capacity"]["concurrency"] == 4


def test_a_table_is_for_people(tenants: Path, capsys: pytest.CaptureFixture[str]):
    assert command("--lake", str(tenants), "--set", "paused=yes", "--validate", "--top", "1") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == "Queue default, 2026-03-14 (UTC): 11 messages of 2 channels"
    assert [line.split()[0] for line in lines if line.startswith(("all", "a "))] == ["all", "a", "all", "a"]
    assert "… and 1 more channels (--top)" in lines
    assert "10 never ran" in out
    assert "off by" in out
    assert repr(NASTY)[1:-1] in out


def test_usage_errors_are_printed(tenants: Path):
    from argparse import ArgumentError

    for arguments in (["--set", "a=1"], ["--workers", "0"], ["--days", "x"]):
        with pytest.raises(ArgumentError, match=r"\w"):
            command("--lake", str(tenants), *arguments)


def test_an_unknown_channel_is_named_in_one_line(tenants: Path):
    with pytest.raises(Exception, match=r"PipelineError: The queue has no message of channel 'typo'"):
        command("--lake", str(tenants), "--set", "typo.weight=2")
