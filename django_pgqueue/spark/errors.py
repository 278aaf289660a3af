class PipelineError(Exception):
    """The pipeline cannot do what was asked; the message is one line that says what to do."""
