"""What can go wrong while measuring.

BenchError
├── PeerUnavailable   a peer cannot be had here: it is skipped, with this word
├── ToolFailed        a program that prepares something here failed, or took too long
├── DriverFailed      a client's process failed, or said something else than an answer
└── ResultIllegal     a result file that is not of the agreed shape
"""

from __future__ import annotations


class BenchError(Exception):
    """Whatever this harness raises by itself."""


class PeerUnavailable(BenchError):
    """A peer cannot be had or started here; its word stands in the results."""


class ToolFailed(BenchError):
    """A compiler, or what makes a server's folder, failed or took too long."""


class DriverFailed(BenchError):
    """A client's process failed."""


class ResultIllegal(BenchError):
    """A result without the agreed fields, or with figures that cannot be."""
