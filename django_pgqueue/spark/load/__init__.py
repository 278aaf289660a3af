"""Load the lake's metrics and forecast into the tables that the admin shows."""
