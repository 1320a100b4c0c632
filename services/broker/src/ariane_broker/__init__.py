"""The broker: stores and serves messages."""
