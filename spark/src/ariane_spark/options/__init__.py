"""The options, and their checks before anything runs."""
