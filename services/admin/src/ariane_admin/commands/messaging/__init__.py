"""Commands that send, receive, repeat and settle messages."""
