"""The same transport for code that blocks: a drop-in for ``grpc.insecure_channel``.

The connections live on one event loop in a thread of its own, which all blocking channels of a
process share. A process that was forked gets a loop, a thread and connections of its own.
"""

from ariane_wire.blocking.channel import BlockingChannel, insecure_channel, secure_channel

__all__ = ["BlockingChannel", "insecure_channel", "secure_channel"]
