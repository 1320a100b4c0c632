"""Failed messages: delivered to their group again later, or kept as dead letters."""
