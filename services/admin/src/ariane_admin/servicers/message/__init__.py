"""The services for messages: stored, delayed and dead ones, and sending."""
