"""Half messages: stored and invisible until their transaction ends."""
