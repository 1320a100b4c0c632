"""What applications may say: checked before anything goes over the wire."""
