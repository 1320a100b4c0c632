"""How state becomes durable: one file, replaced whole."""
