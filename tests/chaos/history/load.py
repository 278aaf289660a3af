"""Reads the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    audit = folder / "audit.jsonl"
    if audit.exists():
        history.rows = in_order(Row(**line) for line in lines(audit))
    return history


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
    text = file.read_text().splitlines()
    for place, line in enumerate(text):
        try:
            yield json.loads(line)
        except ValueError:
            if place < len(text) - 1:
                raise ValueError(f"{file.name}, line {place + 1}: no JSON") from None
