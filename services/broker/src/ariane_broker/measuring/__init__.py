"""What metrics tell of a broker."""
