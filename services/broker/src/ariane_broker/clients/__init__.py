"""Attached clients: their liveness, their memberships, and the notices to them."""
