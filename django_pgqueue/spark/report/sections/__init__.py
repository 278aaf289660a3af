"""What the page shows: each module one part of it, made of what was read."""
