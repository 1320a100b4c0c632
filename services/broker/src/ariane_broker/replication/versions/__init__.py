"""Revisions of the schema, in order. One that was published is never changed."""
