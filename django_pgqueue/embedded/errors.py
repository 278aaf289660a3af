class EmbeddedError(Exception):
    """The embedded server cannot do what was asked; the message is one line that says what to do."""
