"""Common parts of all actors: a thread or process of their own, a seed, a session, a recorder."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verification.chaos.history import Recorder

from .session import ActorSession


@dataclass(slots=True)
class Stage:
    """Events that the actors share. ``calm``: the faults are over, and so are the tricks; ``stop``: the end."""

    url: str
    folder: Path
    seed: int
    lease: float
    channels: dict[str, dict[str, Any]]
    queue: str = "default"
    # Options of single actors, such as the defective reader of a sabotage.
    options: dict[str, Any] = field(default_factory=dict)
    calm: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)


class Actor:
    pause = 0.005
    works_in_the_calm = True

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.random = random.Random(f"{stage.seed}/{name}")
        self.recorder = Recorder(stage.folder, name)
        self.session = ActorSession(stage.url, f"chaos {name}")

    def step(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        while not self.stage.stop.is_set() and (self.works_in_the_calm or not self.stage.calm.is_set()):
            self.step()
            self.stage.stop.wait(self.pause)
        self.end()

    def end(self) -> None:
        self.session.close()

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability
