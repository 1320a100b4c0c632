"""The equivalents of other systems' commands."""
