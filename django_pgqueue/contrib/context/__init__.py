"""Carry the context of a message, such as its trace, from the enqueuer to the handler.

Each module has a ``restore`` for HANDLER_MIDDLEWARE, and, if Django knows the present value, a ``capture`` for
ENQUEUE_CONTEXT. ``restore.reads`` names the keys of the context that it reads, so that batches are not split by other
keys.
"""
