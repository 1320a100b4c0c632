"""Messages on their way to brokers."""
