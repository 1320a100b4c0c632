"""What is asked of name servers and brokers."""
