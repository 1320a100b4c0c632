"""How the octets of connections come and go: protocols of asyncio, and what needs a loop."""
