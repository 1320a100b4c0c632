"""The services for messages: found, sent, waiting, and given up."""
