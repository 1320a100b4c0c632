"""Producers and consumers for minutes, while every kind of process is stopped and killed."""
