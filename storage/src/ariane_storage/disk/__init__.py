"""The seams of the store to the world: disk and clock."""
