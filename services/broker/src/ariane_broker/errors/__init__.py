"""The public errors of the broker, and what errors of the store become."""
