"""Header blocks: fields as octets (HPACK), heads and metadata of calls, and what repeats."""
