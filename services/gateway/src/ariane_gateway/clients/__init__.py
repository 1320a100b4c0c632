"""The clients of this gateway."""
