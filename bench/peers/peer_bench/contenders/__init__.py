"""Everybody who is measured, a file or a folder each."""
