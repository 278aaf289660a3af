"""Django signals, sent for observation; a receiver that raises is logged and changes nothing.

``message_created`` is sent by the Python enqueue, with ``message`` (NewMessage), ``id`` and ``using``: in the
transaction of its caller, which may still be rolled back. The others are sent in the worker's process after the outcome
was written, with ``delivery``, ``using``, ``outcome`` (what the handler answered) and ``error`` (of a failure: a dict
with type, message and traceback, without secrets; else None); ``message_dead_lettered`` with ``reason`` too.
"""

from django.dispatch import Signal

message_created = Signal()
message_completed = Signal()
message_deferred = Signal()
message_retried = Signal()
message_dead_lettered = Signal()
message_cancelled = Signal()
