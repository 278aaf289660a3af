-- This design has no channels.
SELECT %(channels)s::int;
