"""Faults that are planted, to see which seed finds them."""
