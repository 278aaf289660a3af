"""Actors in a process of their own. The stage comes in the environment; SIGUSR1: the calm begins, SIGTERM: the end."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from .actor import Actor, Stage
from .consumer import Consumer
from .others import Operator
from .producer import Producer

ROLES: dict[str, type[Actor]] = {"producer": Producer, "consumer": Consumer, "operator": Operator}


def main() -> None:
    given: dict[str, Any] = json.loads(os.environ["CHAOS_STAGE"])
    roles, pause = given.pop("roles"), given.pop("pause", 0.005)
    stage = Stage(url=os.environ["DATABASE_URL"], **{**given, "folder": Path(given["folder"])})

    def on_signal(number: int, frame: FrameType | None) -> None:
        stage.calm.set()
        if number == signal.SIGTERM:
            stage.stop.set()

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, on_signal)
    threads = []
    for place, role in enumerate(roles):
        actor = ROLES[role](stage, f"{role}-{place}-{os.environ['CHAOS_NAME']}")
        if role == "producer":
            actor.pause = pause
        threads.append(threading.Thread(target=actor.run))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
