"""Define Django signals, which are sent for observation; a receiver that raises is logged and changes nothing.

``message_created`` is sent by the Python enqueue, with ``message`` (NewMessage), ``id`` and ``using``: in the
transaction of its caller, which may still be rolled back. The others are sent in the worker's process after the outcome
was written, with ``delivery``, ``using``, ``outcome`` (the handler's answer) and ``error`` (for a failure a dict with
type, message and traceback, without secrets; else None); ``message_dead_lettered`` also has ``reason``.

``breaker_opened``, ``breaker_tried`` and ``breaker_closed`` are sent by the maintenance of one worker, some seconds
after the change at most, with ``change`` (BreakerChange) and ``using``.
"""

from django.dispatch import Signal

message_created = Signal()
message_completed = Signal()
message_deferred = Signal()
message_retried = Signal()
message_dead_lettered = Signal()
message_cancelled = Signal()
breaker_opened = Signal()
breaker_tried = Signal()
breaker_closed = Signal()
