"""Everybody who is measured, a file each."""
