"""Messages as lines, rows and bodies."""
