"""Asking the processes of a cluster."""
