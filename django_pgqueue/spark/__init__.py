"""The data pipeline: PostgreSQL to a lake of Delta tables, and back. No Django: its workers run without a project."""
