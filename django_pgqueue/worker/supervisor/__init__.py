"""Start, watch and replace the worker processes. No handler runs in the supervisor."""
