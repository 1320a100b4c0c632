"""Encodes messages in Arrow columns as blocks of records."""
