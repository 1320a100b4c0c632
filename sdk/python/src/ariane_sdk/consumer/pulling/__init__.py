"""Held pulls: requests, streams, and the returned records."""
