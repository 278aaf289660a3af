"""Django signals, sent in the worker's process for observation; a receiver that raises is logged and changes nothing.

Each is sent with ``delivery`` and ``using``; ``message_dead_lettered`` with ``reason`` too.
"""

from django.dispatch import Signal

message_completed = Signal()
message_deferred = Signal()
message_retried = Signal()
message_dead_lettered = Signal()
message_cancelled = Signal()
