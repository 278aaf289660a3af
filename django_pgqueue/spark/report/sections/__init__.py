"""The sections of the page. Each module makes one of them from the data that was read."""
