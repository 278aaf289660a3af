"""Reads the folder of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from .events import History, Info, Op, Row


def load(folder: Path) -> History:
    """Raises ValueError for a line that is no JSON, unless it is the last of a file: its process was killed there."""
    history = History(run=json.loads((folder / "run.json").read_text()))
    for file in sorted(folder.glob("client-*.jsonl")):
        read_client(history, file)
    history.ops.sort(key=lambda op: op.began)
    history.infos.sort(key=lambda info: info.at)
    history.rows = rows_of(folder)
    return history


def rows_of(folder: Path) -> list[Row]:
    audit = folder / "audit.jsonl"
    return in_order(map(row, lines(audit))) if audit.exists() else []


def forget(history: History, since: int, until: int) -> History:
    """Take back the answers between the two times: a standby took over that did not have them all.

    A reader of the archive by transaction ids must begin anew then: the server gives them again.
    """
    ops = [op for op in history.ops if op.verb != "read"]
    history.ops = [
        replace(op, result="unknown") if op.began <= until and (op.ended or until) >= since else op for op in ops
    ]
    return history


def row(line: dict[str, Any]) -> Row:
    """Words and tokens are in many rows: once in memory is enough."""
    fields: dict[str, Any] = {name: sys.intern(value) if type(value) is str else value for name, value in line.items()}
    return Row(**fields)


def in_order(rows: Iterator[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.committed, row.xid, row.seq))


def read_client(history: History, file: Path) -> None:
    process = file.stem.removeprefix("client-")
    open_calls: dict[int, Op] = {}
    for line in lines(file):
        match line["type"]:
            case "info":
                history.infos.append(Info(process, line["verb"], line["wall"], line.get("fields", {})))
            case "invoke":
                open_calls[line["op"]] = Op(process, line["op"], line["verb"], line["args"], line["wall"])
            case result:
                op = open_calls.pop(line["op"])
                value = line.get("value", {})
                history.ops.append(Op(process, op.number, op.verb, op.args, op.began, line["wall"], result, value))
    history.ops.extend(open_calls.values())


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """Line by line: an audit may be larger than memory likes."""
    with file.open() as text:
        broken = 0
        for place, line in enumerate(text, 1):
            if broken:
                raise ValueError(f"{file.name}, line {broken}: no JSON")
            try:
                yield json.loads(line)
            except ValueError:
                broken = place
