"""Pulls, ranges and queries."""
