"""Shared by several folders of tests and the harnesses in verification/. A helper of one folder stays there."""
