"""The queue as models in TLA+ (specs/), checked by TLC, and histories of the real queue checked against them."""
