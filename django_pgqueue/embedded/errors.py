class EmbeddedError(Exception):
    """The embedded server cannot do what was requested; the message is one line that says what to do."""
