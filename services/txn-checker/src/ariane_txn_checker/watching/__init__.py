"""Looking after one broker: its half messages are listed, and producers asked about them."""
