"""What several folders of tests and the harnesses in verification/ share. A helper of one folder stays there."""
