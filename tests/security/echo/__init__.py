"""An app with one handler, which needs no table of its own."""
