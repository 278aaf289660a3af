"""Write outcomes to the database."""
