"""Copies of the log: sending its bytes, receiving them, and cutting what copies do not share."""
