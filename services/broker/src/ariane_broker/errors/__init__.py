"""The public errors of the broker, and the translation of the store's errors."""
