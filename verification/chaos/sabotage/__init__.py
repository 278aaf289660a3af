"""The checker is checked: defects that are put into the queue on purpose, each of which a run must bring to light."""
