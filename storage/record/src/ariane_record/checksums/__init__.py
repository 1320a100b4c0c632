"""CRC-32 and hashes, of single values and of many at once."""
