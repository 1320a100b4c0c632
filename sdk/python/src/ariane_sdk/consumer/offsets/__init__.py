"""The storage of a group's offsets, and the offsets at which it begins."""
