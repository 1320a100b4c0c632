"""The metrics of a broker."""
