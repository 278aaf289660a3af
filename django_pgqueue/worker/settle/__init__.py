"""From outcomes to the database."""
