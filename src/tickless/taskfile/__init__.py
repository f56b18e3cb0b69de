"""Task files and crontabs: from a text to values, and from values to a scheduler."""
