"""A broker with copies: who is primary, who follows it, and what is confirmed."""
