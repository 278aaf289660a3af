"""An app whose handlers do what their message says: one script for success, failure, crash and kill."""
