"""CRC-32 and hashes, of one and of many."""
