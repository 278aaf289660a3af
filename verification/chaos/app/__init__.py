"""The app whose handlers the workers of a run have."""
