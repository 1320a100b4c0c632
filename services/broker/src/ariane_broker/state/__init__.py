"""Topics, groups and offsets on the disk."""
