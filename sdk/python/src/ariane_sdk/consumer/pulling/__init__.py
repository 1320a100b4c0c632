"""Held pulls: requests, streams, and the records that come back."""
