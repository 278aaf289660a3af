"""From the lake's metrics and forecast to the tables that the admin shows."""
