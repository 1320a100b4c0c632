"""Writes the seeds of the corpus anew: what a good peer and each attacker would say.

.venv/bin/python wire/tests/fuzz/write_corpus.py
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "peers"), str(HERE.parent / "hostile")]

import raw_frames as raw  # noqa: E402 - after the path.
from attacks import ATTACKS, COLLECT, ECHO, GUSH, OPEN_CALL  # noqa: E402
from raw_frames import END_HEADERS, END_STREAM, Kind, frame  # noqa: E402

CORPUS = HERE / "corpus"
SERVER, CLIENT = 0, 1
OCTETS_MAX = 4_000
HEAD = [(":status", "200"), ("content-type", "application/grpc"), ("x-a", "1")]
TRAILERS = [("grpc-status", "0"), ("grpc-message", "fine"), ("x-b-bin", "AAE")]


def to_server() -> list[bytes]:
    """What clients say, after the preface."""
    hello = raw.settings((raw.INITIAL_WINDOW_SIZE, 100_000)) + raw.SETTINGS_ACK
    stream = OPEN_CALL + frame(Kind.DATA, 0, 1, raw.message(b"one") + raw.message(b"two"))
    good = [
        hello + raw.whole_call(1, ECHO, b"hello") + raw.whole_call(3, ECHO, b"again"),
        hello + stream + frame(Kind.DATA, END_STREAM, 1, raw.message(b"three")),
        hello + raw.whole_call(1, GUSH) + raw.window_update(0, 70_000) + raw.rst_stream(1),
        hello
        + raw.call_head(1, COLLECT, ("grpc-timeout", "100m"))
        + frame(Kind.GOAWAY, 0, 0, bytes(8)),
    ]
    bad = [
        raw.settings(*attack.settings) + attack.opening + attack.unit(0) + attack.unit(1)
        for attack in ATTACKS.values()
    ]
    return good + [each for each in bad if len(each) <= OCTETS_MAX]


def to_client() -> list[bytes]:
    """What servers say to a unary call, which is stream 1, and to a stream, which is stream 3."""
    hello = raw.settings((raw.MAX_CONCURRENT_STREAMS, 100)) + raw.SETTINGS_ACK
    head, trailers = raw.block(HEAD), raw.block(TRAILERS)
    answers = b""
    for stream in (1, 3):
        answers += frame(Kind.HEADERS, END_HEADERS, stream, head)
        answers += frame(Kind.DATA, 0, stream, raw.message(b"response"))
        answers += frame(Kind.HEADERS, END_HEADERS | END_STREAM, stream, trailers)
    return [
        hello + answers,
        hello + frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, raw.block(HEAD + TRAILERS)),
        hello + raw.rst_stream(1, raw.REFUSED_STREAM) + raw.rst_stream(3, 2),
        hello + frame(Kind.GOAWAY, 0, 0, bytes(8)),
        hello + frame(Kind.GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4) + b"later") + answers,
        raw.settings((raw.MAX_CONCURRENT_STREAMS, 0))
        + raw.settings((raw.MAX_CONCURRENT_STREAMS, 1)),
        raw.settings((raw.INITIAL_WINDOW_SIZE, 0)) + raw.window_update(1, 10) + answers,
        hello + frame(Kind.HEADERS, END_HEADERS, 1, raw.block([(":status", "103")])) + answers,
        hello + frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, raw.block([(":status", "502")])),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ]


def main() -> None:
    """Write each as a file that is named after its content."""
    CORPUS.mkdir(exist_ok=True)
    for end, talks in ((SERVER, to_server()), (CLIENT, to_client())):
        for number, octets in enumerate(talks):
            data = bytes((end, (0, 1, 9)[number % 3])) + octets
            (CORPUS / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


if __name__ == "__main__":
    main()
