"""Durable state: files that are replaced as a whole."""
