"""What is wrong with a cluster."""
