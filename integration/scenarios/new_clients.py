"""New clients, one after the other, in a process that no attack holds up; says how long each took.

python new_clients.py COUNT NAME_SERVERS CA CERTIFICATE KEY

"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from ariane_sdk import Message, Producer, Tls
from ariane_sdk.errors import ArianeError


async def served_within(servers: str, tls: Tls) -> float:
    """Seconds until a new client has sent a message, however often it has to try."""
    begun = time.monotonic()
    while True:
        try:
            async with Producer(servers, tls=tls) as producer:
                await producer.send(Message("orders", b"meanwhile"))
            return time.monotonic() - begun
        except ArianeError as error:
            print(f"not served: {error}", file=sys.stderr)


async def main(count: str, servers: str, ca: str, certificate: str, key: str) -> None:
    """Let so many clients come."""
    tls = Tls(ca=ca, certificate=certificate, key=key)
    print(json.dumps([await served_within(servers, tls) for _ in range(int(count))]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
