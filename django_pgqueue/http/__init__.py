"""An HTTP door to the queue, in an app of its own: each key opens one channel, for some verbs."""
