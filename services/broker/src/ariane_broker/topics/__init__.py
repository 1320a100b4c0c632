"""The topics of this broker."""
