"""Revisions of the schema, in order. A published revision is never changed."""
