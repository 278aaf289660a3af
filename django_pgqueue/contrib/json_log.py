"""Write log records as JSON, one a line, with the keys of docs/reference/logging.md."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

# The attributes of every record; all others came as ``extra``.
STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Format records as JSON, for the setting ``LOGGING``. Tracebacks are redacted before."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON, with the keys that were passed as ``extra``."""
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {key: value for key, value in vars(record).items() if key not in STANDARD}
        if record.exc_text:
            entry["exception"] = record.exc_text
        elif record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)
