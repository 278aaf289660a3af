"""Reload: starts the processes again when a file of the project changes. For development."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from django.utils import autoreload

logger = logging.getLogger("django_pgqueue.worker")


class FileWatch:
    """``on_change`` is called with the file. Django's own reloaders watch what the supervisor has imported, which
    is at least every app's models and handlers.
    """

    def __init__(self, on_change: Callable[[Path], None]) -> None:
        self._reloader = autoreload.get_reloader()
        # Django's would end this process.
        self._reloader.notify_file_changed = on_change  # type: ignore[method-assign, assignment]  # Django has no hook for it
        self._thread = threading.Thread(target=self._run, name="pgqueue-files", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._reloader.stop()

    def _run(self) -> None:
        try:
            self._reloader.run_loop()
        except Exception:
            logger.exception("changed files are not noticed any more", extra={"event": "reload_failed"})
