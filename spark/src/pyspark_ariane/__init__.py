"""Lets Spark find the format ``ariane``: it imports every top-level module named ``pyspark_*``."""

from pyspark_ariane.default_source import DefaultSource

__all__ = ["DefaultSource"]
