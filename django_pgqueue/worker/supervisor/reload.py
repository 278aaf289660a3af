"""Watch the files of the project, so that the supervisor replaces its processes after a change. For development."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from django.utils import autoreload

logger = logging.getLogger("django_pgqueue.worker")


class FileWatch:
    """Call ``on_change`` with each changed file, in a thread of its own.

    It uses Django's reloader, which watches the modules that the supervisor has imported: at least the models and
    handlers of every app.
    """

    def __init__(self, on_change: Callable[[Path], None]) -> None:
        self._reloader = autoreload.get_reloader()
        # Django's own function would end this process.
        self._reloader.notify_file_changed = on_change  # type: ignore[method-assign, assignment]  # Django has no hook for it
        self._thread = threading.Thread(target=self._run, name="pgqueue-files", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._reloader.stop()

    def _run(self) -> None:
        try:
            self._reloader.run_loop()
        except Exception:
            logger.exception(
                "--reload does not notice changed files any more: restart the worker", extra={"event": "reload_failed"}
            )
