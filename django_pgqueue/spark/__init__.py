"""The data pipeline: PostgreSQL to a Parquet lake, and back. No Django: its workers run without a project."""
