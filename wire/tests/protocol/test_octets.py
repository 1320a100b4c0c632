"""Golden octets, and encoders against decoders."""

from __future__ import annotations

from struct import pack

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from ariane_wire.protocol import frames
from ariane_wire.protocol.assembly import Assembly, MemoryLedger, MemoryShare, MessageRefused
from ariane_wire.protocol.faults import StreamFault
from ariane_wire.protocol.headers import header_fields, metadata
from ariane_wire.protocol.headers.heads import parse_request, parse_response
from ariane_wire.server import replies


def test_golden_frames():
    assert frames.settings_frame({4: 65536}) == bytes.fromhex("000006040000000000000400010000")
    assert bytes.fromhex("000000040100000000") == frames.SETTINGS_ACK
    assert frames.ping_frame(b"12345678") == bytes.fromhex("0000080600000000003132333435363738")
    assert frames.reset_frame(3, 8) == bytes.fromhex("00000403000000000300000008")
    assert frames.window_frame(0, 1) == bytes.fromhex("00000408000000000000000001")
    assert (
        frames.goaway_frame(5, 0, b"x")
        == bytes.fromhex("0000090700000000000000000500000000") + b"x"
    )


def test_golden_response():
    """A response as it has always been: clients in the field have seen these octets."""
    (octets,) = replies.whole(1, b"hi")
    assert octets.hex() == (
        "00004e010400000001"
        "88000c636f6e74656e742d74797065106170706c69636174696f6e2f67727063"
        "0014677270632d6163636570742d656e636f64696e67176964656e746974792c206465666c6174652c20677a6970"
        "000007000000000001"
        "0000000002" + b"hi".hex() + "00000f0105000000010" + "00b677270632d7374617475730130"
    )


def test_a_long_answer_has_the_same_octets_in_parts():
    message = bytes(5_000)
    parts = replies.whole(3, message)
    assert len(parts) == 3
    short = b"".join(replies.whole(3, b""))
    joined = b"".join(parts)
    assert joined[: len(parts[0]) - 14] == short[: len(parts[0]) - 14]  # The head.
    assert joined.endswith(message + short[-len(parts[2]) :])


def test_long_header_blocks_are_continued():
    block = bytes(40_000)
    octets = frames.headers_frames(1, block, 16_384, frames.END_STREAM)
    seen, at = [], 0
    while at < len(octets):
        word, flags, stream_id = frames.HEAD.unpack_from(octets, at)
        seen.append((word & 255, flags, stream_id, word >> 8))
        at += 9 + (word >> 8)
    assert seen == [(1, 1, 1, 16_384), (9, 0, 1, 16_384), (9, 4, 1, 7_232)]


NAMES = st.from_regex(r"[0-9a-z_.-]{1,40}", fullmatch=True).map(lambda name: "x" + name)
TEXTS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=300)


@given(st.lists(st.tuples(NAMES, TEXTS), max_size=8), st.lists(st.binary(max_size=300), max_size=4))
def test_metadata_comes_back(texts, binaries):
    pairs = [(name.removesuffix("-bin") + "t", value) for name, value in texts]
    pairs += [("x-some-bin", value) for value in binaries]
    block = (
        header_fields.METHOD_POST
        + header_fields.SCHEME_HTTP
        + header_fields.path("/a/b")
        + header_fields.literal(b"content-type", b"application/grpc+proto")
        + metadata.encode_metadata(pairs)
    )
    fields = [(bytes(n), bytes(v)) for n, v in Decoder(1 << 20).decode(block, raw=True)]
    head = parse_request(fields)
    assert (list(head.metadata), head.http_status, head.method) == (pairs, 200, "/a/b")


@given(st.text(max_size=100))
def test_texts_of_statuses_come_back(text):
    cleaned = text.encode(errors="replace").decode()
    assert metadata.unescape_message(metadata.escape_message(text)) == cleaned
    assert metadata.escape_message(text).isascii()


@pytest.mark.parametrize(
    ("key", "value"),
    [("Upper", "x"), ("a b", "x"), (":path", "x"), ("te", "x"), ("", "x"), ("a", "ü"), ("a", "\n")],
)
def test_metadata_that_cannot_be_sent(key, value):
    with pytest.raises(ValueError, match="metadata"):
        metadata.encode_metadata([(key, value)])


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_timeouts_are_never_shorter_and_hardly_longer(seconds):
    field = header_fields.timeout_field(seconds)
    value = field[len(header_fields.TIMEOUT_FIELD) + 1 :]
    assert len(value) == field[len(header_fields.TIMEOUT_FIELD)] <= 9
    parsed = header_fields.parse_timeout(value)
    assert parsed >= min(seconds, 99_999_999) - 1e-9 - seconds * 1e-12
    assert parsed <= seconds * 1.0101 + 2e-6


@pytest.mark.parametrize("value", [b"", b"5", b"S", b"-1S", b"123456789S", b"5s", b"1.5S"])
def test_timeouts_that_are_none(value):
    with pytest.raises(ValueError, match="timeout"):
        header_fields.parse_timeout(value)


REQUEST = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a/b"),
    (b"content-type", b"application/grpc"),
]


@pytest.mark.parametrize(
    "fields",
    [
        REQUEST[1:],
        [*REQUEST, (b":path", b"/a")],
        [REQUEST[0], (b"x", b"y"), *REQUEST[1:]],
        [*REQUEST, (b"Upper", b"x")],
        [*REQUEST, (b"connection", b"close")],
        [*REQUEST, (b"te", b"gzip")],
        [*REQUEST, (b"x", b"a\nb")],
        [*REQUEST, (b":status", b"200")],
        [*REQUEST, (b"content-length", b"many")],
        [*REQUEST[:2], (b":path", b""), REQUEST[3]],
    ],
)
def test_malformed_requests(fields):
    with pytest.raises(StreamFault):
        parse_request(fields)


def test_requests_that_are_not_grpc():
    assert parse_request([(b":method", b"GET"), *REQUEST[1:]]).http_status == 405
    assert parse_request([*REQUEST[:3], (b"content-type", b"text/html")]).http_status == 415
    assert parse_request([*REQUEST, (b"x-bin", b"!")]).fault
    assert parse_request([*REQUEST, (b"grpc-timeout", b"soon")]).fault


def test_responses():
    head = parse_response([(b"grpc-status", b"5"), (b"grpc-message", b"a%20b"), (b"x", b"y")])
    assert (head.status, head.message, head.metadata) == (5, "a b", (("x", "y"),))
    assert parse_response([(b":status", b"200"), (b"grpc-status", b"many")]).fault


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.booleans()), max_size=6),
    st.lists(st.integers(1, 50), max_size=40),
)
def test_messages_come_out_of_pieces(messages, cuts):
    """However DATA is cut into frames and frames into reads, the messages are the same."""
    octets = b"".join(pack(">BI", flag, len(body)) + body for body, flag in messages)
    ledger = MemoryLedger(1 << 20)
    assembly = Assembly(300, ledger)
    seen, at = [], 0
    for size in [*cuts, len(octets)]:
        stop = min(len(octets), at + size)
        seen += assembly.feed(octets, at, stop)
        at = stop
    assert seen == messages
    assert not assembly.is_inside
    assert ledger.octets == 0


def test_messages_that_are_refused():
    for octets, exhausted in ((b"\0\0\0\1\0", True), (b"\2\0\0\0\0", False)):
        with pytest.raises(MessageRefused) as caught:
            Assembly(255, MemoryLedger(1 << 20)).feed(octets, 0, 5)
        assert caught.value.is_exhausted is exhausted


def test_one_host_does_not_fill_the_memory_of_all():
    """Whoever has proved nothing may begin messages, too, and never end them."""
    whole = MemoryLedger(100)
    shares = [MemoryShare(75, whole) for _ in range(2)]
    greedy, again = Assembly(1000, shares[0]), Assembly(1000, shares[0])
    honest = Assembly(1000, shares[1])
    greedy.feed(b"\0\0\0\3\0" + bytes(70), 0, 75)
    with pytest.raises(MessageRefused, match="75 octets"):
        again.feed(b"\0\0\0\3\0" + bytes(10), 0, 15)
    honest.feed(b"\0\0\0\3\0" + bytes(30), 0, 35)
    assert (whole.octets, shares[0].octets, shares[1].octets) == (100, 70, 30)
    with pytest.raises(MessageRefused):
        honest.feed(bytes(1), 0, 1)
    for each in (greedy, again, honest):
        each.drop()
    assert (whole.octets, shares[0].octets, shares[1].octets) == (0, 0, 0)


def test_memory_is_bounded_for_all_streams_together():
    ledger = MemoryLedger(100)
    one, two = Assembly(1000, ledger), Assembly(1000, ledger)
    one.feed(b"\0\0\0\3\0" + bytes(60), 0, 65)
    with pytest.raises(MessageRefused, match="100 octets"):
        two.feed(b"\0\0\0\3\0" + bytes(60), 0, 65)
    one.drop()
    two.drop()
    assert ledger.octets == 0
