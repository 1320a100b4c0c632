"""The commit log: segments, and walks over their records."""
