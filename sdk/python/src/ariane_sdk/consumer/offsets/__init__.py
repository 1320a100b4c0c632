"""Where a group's offsets are kept, and where it begins."""
