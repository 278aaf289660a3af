"""A second queue of each run, whose channels share its capacity: fairness="share" and max_share."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from .actors.actor import Stage

CROWD = "crowd"
# Nothing but their shares limits them.
CROWDED: dict[str, dict[str, Any]] = {"crowd a": {}, "crowd b": {}, "crowd c": {}, "crowd d": {"weight": 3}}
SETTINGS: dict[str, Any] = {"fairness": "share", "max_share": 0.6, "max_concurrency": 5}
# The operator chooses among these.
EDITS: list[dict[str, Any]] = [
    {"fairness": "share", "max_share": 0.4},
    {"fairness": "turns", "max_share": 0.6},
    {"fairness": "share", "max_concurrency": 4},
    SETTINGS,
]
# Its messages have neither limits nor keys. The settings stay for longer than the checker needs to be sure of them.
OPTIONS: dict[str, Any] = {
    "share": 0, "keyed": 0, "kinds": {"plain": 6, "atomic": 4}, "operator_pause": 1.5, "crowded": [],
}  # fmt: skip


def crowd_stage(stage: Stage) -> Stage:
    """Return the stage of the actors of this queue."""
    return replace(stage, queue=CROWD, channels=CROWDED, options={**stage.options, **OPTIONS})


def prepare_crowd(session: psycopg.Connection[Any], settings: dict[str, Any]) -> None:
    for name, limits in CROWDED.items():
        session.execute("SELECT pgqueue_channel_set(%s, %s, p_limits => %s)", (CROWD, name, json.dumps(limits)))
    share_crowd(session, settings)


def share_crowd(session: psycopg.Connection[Any], settings: dict[str, Any]) -> None:
    """Let the channels share. ``settings``: in place of the usual ones."""
    session.execute("SELECT pgqueue_queue_set(%s, %s)", (CROWD, json.dumps({**SETTINGS, **settings})))
