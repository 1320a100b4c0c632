"""Conversion between messages of the contract and values of the use cases."""
