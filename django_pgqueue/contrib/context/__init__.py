"""What surrounds a message, carried from the enqueuer to the handler.

Each module has a ``restore`` for HANDLER_MIDDLEWARE, and, where that is known to Django, a ``capture`` for
ENQUEUE_CONTEXT. ``restore.reads`` names the keys of the context that it looks at, so that batches need not be split by
the others.
"""
