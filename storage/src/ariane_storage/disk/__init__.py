"""The store's seams to disk and clock."""
