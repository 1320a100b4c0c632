"""Inspection and repair of a closed store."""
