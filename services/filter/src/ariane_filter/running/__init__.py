"""Filters that run: a jailed worker for each version that groups ask for."""
