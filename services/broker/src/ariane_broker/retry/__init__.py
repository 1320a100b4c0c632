"""Failed messages: brought back to their group later, or kept as dead letters."""
