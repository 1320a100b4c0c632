"""What is told of running streams."""
