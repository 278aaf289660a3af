"""Hold optional parts. Nothing of the package imports them: settings name them."""
