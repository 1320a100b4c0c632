"""``ariane message``: single messages, found, taken back, and consumed again."""
