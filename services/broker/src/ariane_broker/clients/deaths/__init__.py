"""Messages that kill their consumers: finding the message, and deciding about it."""
