"""The parent of the worker processes. No handler runs here."""
