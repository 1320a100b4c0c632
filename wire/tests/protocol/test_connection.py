"""Two connections without transports: octets go from one list to the other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_wire.client.connection import ClientConnection
from ariane_wire.options import ChannelOptions, ServerOptions
from ariane_wire.protocol import allowance, frames
from ariane_wire.protocol.assembly import MemoryLedger
from ariane_wire.protocol.headers.header_blocks import BlockMemory
from ariane_wire.protocol.headers.header_fields import METHOD_POST, SCHEME_HTTP, literal, path
from ariane_wire.protocol.headers.heads import parse_request, parse_response
from ariane_wire.protocol.stream import Stream
from ariane_wire.server.connection import ServerConnection

BLOCK = METHOD_POST + SCHEME_HTTP + path("/a/b") + literal(b"content-type", b"application/grpc")
HELLO = frames.PREFACE + frames.settings_frame({})


class Recorder(Stream):
    """A stream that notes what happens to it."""

    def __init__(self):
        self.messages = []
        self.events = []

    def on_message(self, message, *, compressed):
        self.messages.append(bytes(message))

    def on_end(self):
        self.events.append("end")

    def on_refused(self, refusal):
        self.events.append("refused")

    def on_reset(self, code):
        self.events.append(f"reset {code}")

    def on_fault(self, fault):
        self.events.append(f"fault {fault.code.name}")

    def on_lost(self, text, *, never_processed):
        self.events.append("lost")

    def on_head(self, head, *, ends):
        self.events.append("head")

    def abort_call(self):
        self.events.append("abort")


class Served:
    """A server's connection, and the streams that were opened on it."""

    def __init__(self, requests=None, **options):
        self.streams = []
        self.ledger = MemoryLedger(1 << 30)
        options_ = ServerOptions(**options)
        self.connection = ServerConnection(
            options_, requests or BlockMemory(parse_request), self.ledger, self._begin, lambda: 0.0
        )

    def _begin(self, connection, stream_id, head):
        stream = Recorder()
        stream.head = head
        stream.attach(connection, stream_id)
        connection.streams[stream_id] = stream
        self.streams.append(stream)
        return stream

    def take(self):
        return b"".join(self.connection.take_out())

    def goaway(self):
        """The code of the GOAWAY that was sent; None if there was none."""
        octets, at = self.take(), 0
        while at < len(octets):
            word, _, _ = frames.HEAD.unpack_from(octets, at)
            if word & 255 == frames.GOAWAY:
                return frames.ErrorCode(int.from_bytes(octets[at + 13 : at + 17], "big"))
            at += 9 + (word >> 8)
        return None


def frame(kind, flags, stream_id, payload=b""):
    return frames.HEAD.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def headers(stream_id, block=BLOCK, flags=frames.END_HEADERS):
    return frame(frames.HEADERS, flags, stream_id, block)


def message(body, flag=0):
    return frames.PREFIX.pack(flag, len(body)) + body


@given(
    st.lists(st.binary(max_size=3000), min_size=1, max_size=5),
    st.lists(st.integers(1, 200), max_size=60),
    st.integers(0, 20),
)
@settings(max_examples=50)
def test_cuts_of_reads_change_nothing(bodies, cuts, padding):
    octets = HELLO + headers(1)
    for body in bodies:
        payload = message(body)
        octets += frame(frames.DATA, frames.PADDED, 1, bytes([padding]) + payload + bytes(padding))
        octets += frame(frames.DATA, 0, 1, payload)
    octets += frame(frames.DATA, frames.END_STREAM, 1)
    served, at = Served(), 0
    for size in [*cuts, len(octets)]:
        served.connection.receive(octets[at : at + size])
        at = min(at + size, len(octets))
    stream = served.streams[0]
    assert stream.messages == [body for body in bodies for _ in range(2)]
    assert stream.events == ["end"]
    assert served.goaway() is None


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_no_octets_raise(octets):
    for served, lead in ((Served(), b""), (Served(), HELLO), (Served(), HELLO + headers(1))):
        served.connection.receive(lead)
        served.connection.receive(octets)
    client = ClientConnection(ChannelOptions(), BlockMemory(parse_response), MemoryLedger(1 << 30))
    client.receive(frames.settings_frame({}))
    client.open(Recorder(), BLOCK)
    client.receive(octets)


FRAMES = st.builds(
    frame,
    st.integers(0, 12),
    st.integers(0, 255),
    st.sampled_from([0, 1, 2, 3, 5, 0x7FFFFFFF]),
    st.binary(max_size=40) | st.just(BLOCK) | st.just(message(b"x")) | st.just(bytes(4)),
)


@given(st.lists(FRAMES, max_size=30))
@settings(max_examples=300)
def test_no_frames_raise_or_leak(sent):
    served = Served()
    served.connection.receive(HELLO)
    for each in sent:
        served.connection.receive(each)
    served.connection.end("over")
    assert not served.connection.streams
    assert served.ledger.octets == 0


@given(st.lists(st.tuples(st.integers(1, 400_000), st.booleans()), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_windows(plan):
    """Messages of several streams, whatever the windows: all arrive, and no window is overrun."""
    served = Served(stream_window_octets=70_000, connection_window_octets=100_000)
    server = served.connection
    client = ClientConnection(ChannelOptions(), BlockMemory(parse_response), MemoryLedger(1 << 30))
    calls = [Recorder(), Recorder()]

    def exchange():
        while True:
            there, back = b"".join(client.take_out()), b"".join(server.take_out())
            if not there and not back:
                return
            server.receive(there)
            client.receive(back)

    exchange()
    for call in calls:
        client.open(call, BLOCK)
    for size, which in plan:
        calls[which].send_message(bytes(size))
        exchange()
    for call in calls:
        call.end_sending()
    exchange()
    for which in (0, 1):
        assert [len(each) for each in served.streams[which].messages] == [
            size for size, other in plan if other == which
        ]
        assert served.streams[which].events == ["end"]
    assert not server.is_over
    assert not client.is_over
    assert client.send_window >= 0


def test_streams_take_turns():
    client = ClientConnection(ChannelOptions(), BlockMemory(parse_response), MemoryLedger(1 << 30))
    client.receive(
        frames.settings_frame({4: 1 << 24, 5: 1 << 20}) + frames.window_frame(0, 1 << 24)
    )
    large, small = Recorder(), Recorder()
    for call in (large, small):
        client.open(call, BLOCK)
    client.take_out()
    large.send_message(bytes(8 << 20))
    small.send_message(bytes(1000))
    octets, at, seen = b"".join(client.take_out()), 0, []
    while at < len(octets):
        word, _, stream_id = frames.HEAD.unpack_from(octets, at)
        seen.append((stream_id, word >> 8))
        at += 9 + (word >> 8)
    assert (3, 1005) in seen[:2]
    assert len(octets) < 600_000


def test_a_reader_who_does_not_read_stops_his_stream_only():
    served = Served(stream_window_octets=70_000, connection_window_octets=1 << 20)
    served.connection.receive(HELLO + headers(1) + headers(3))
    slow, quick = served.streams
    body = message(bytes(10_000))
    slow.on_message = lambda each, *, compressed: slow.hold(len(each))
    for _ in range(6):
        served.connection.receive(frame(frames.DATA, 0, 1, body))
    served.take()
    for _ in range(100):
        served.connection.receive(frame(frames.DATA, 0, 3, body))
    assert len(quick.messages) == 100
    assert frames.window_frame(1, 0)[:9] not in served.take()
    assert served.connection.unread == 60_000
    served.connection.receive(frame(frames.DATA, 0, 1, body) * 2)
    assert slow.events == ["fault FLOW_CONTROL_ERROR"]
    assert served.ledger.octets == 0


FLOODS = {
    "PING": frame(frames.PING, 0, 0, bytes(8)),
    "SETTINGS": frame(frames.SETTINGS, 0, 0),
    "PRIORITY": frame(frames.PRIORITY, 0, 9, bytes(5)),
    "WINDOW_UPDATE": frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "empty DATA": frame(frames.DATA, 0, 1),
    "padding": frame(frames.DATA, frames.PADDED, 1, bytes(1)),
    "unknown": frame(200, 0, 0),
    "SETTINGS acknowledged": frame(frames.SETTINGS, frames.ACK, 0),
}


@pytest.mark.parametrize("name", sorted(FLOODS))
def test_floods_end_after_a_stated_number_of_frames(name):
    served = Served(keepalive_without_calls=True, ping_interval_min_s=0)
    served.connection.receive(HELLO + headers(1))
    count = 0
    while not served.connection.is_over:
        served.connection.receive(FLOODS[name])
        count += 1
        assert count < 2 * allowance.IDLE_FRAMES_MAX
    assert served.goaway() is frames.ErrorCode.ENHANCE_YOUR_CALM


def test_rapid_reset_ends_after_a_stated_number_of_streams():
    served = Served(streams_max=100)
    served.connection.receive(HELLO)
    octets, count = b"", 0
    for number in range(1, 4001, 2):
        octets += headers(number) + frames.reset_frame(number, 8)
    served.connection.receive(octets)
    while served.connection.has_more_work:
        served.connection.receive(b"")
        count += 1
    assert served.connection.is_over
    assert len(served.streams) <= 100 + allowance.RESETS_SPARE + 2 + count
    assert served.goaway() is frames.ErrorCode.ENHANCE_YOUR_CALM


def test_continuation_floods():
    served = Served()
    served.connection.receive(HELLO + frame(frames.HEADERS, 0, 1, BLOCK))
    count = 0
    while not served.connection.is_over:
        served.connection.receive(frame(frames.CONTINUATION, 0, 1))
        count += 1
    assert count <= allowance.CONTINUATIONS_MAX
    assert not served.streams


def test_a_header_bomb():
    """Many fields out of few octets."""
    served = Served(metadata_octets_max=16_384)
    table = literal(b"x-large", b"y" * 3000)
    served.connection.receive(HELLO + headers(1, BLOCK + b"\x40" + table[1:] + b"\xbe" * 1000))
    assert served.goaway() is frames.ErrorCode.ENHANCE_YOUR_CALM
    assert not served.streams


def test_too_much_metadata_harms_its_call_only():
    served = Served(metadata_octets_max=2000)
    served.connection.receive(
        HELLO + headers(1, b"\x20" + BLOCK) + headers(3, BLOCK + literal(b"x", b"y" * 3000))
    )
    assert not served.connection.is_over
    assert "exceeds the limit" in served.streams[1].head.fault
    served.connection.receive(headers(5))
    assert len(served.streams) == 3


def test_one_turn_begins_so_many_calls():
    served = Served(streams_max=5000)
    octets = b"".join(headers(number, b"\x20" + BLOCK) for number in range(1, 1001, 2))
    served.connection.receive(HELLO + octets)
    assert len(served.streams) == 128
    turns = 1
    while served.connection.has_more_work:
        served.connection.receive(b"")
        turns += 1
    assert (len(served.streams), turns) == (500, 4)


def test_blocks_that_repeat_are_parsed_once_for_all_connections():
    memory = BlockMemory(parse_request)
    heads = []
    for _ in range(2):
        served = Served(memory)
        block = b"\x20" + BLOCK + literal(b"x-once", b"1")
        served.connection.receive(HELLO + headers(1, block) + headers(3, block[1:]))
        heads += [stream.head for stream in served.streams]
    assert heads[1] is heads[3]


@pytest.mark.parametrize(
    "octets",
    [
        headers(2),
        headers(1) + headers(1),
        frame(frames.DATA, 0, 1),
        frame(frames.PUSH_PROMISE, 0, 1, bytes(4)),
        frame(frames.SETTINGS, 0, 1),
        frame(frames.SETTINGS, 0, 0, bytes(5)),
        frame(frames.PING, 0, 0, bytes(7)),
        frame(frames.GOAWAY, 0, 1, bytes(8)),
        frame(frames.WINDOW_UPDATE, 0, 0, bytes(4)),
        frame(frames.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
        frame(frames.RST_STREAM, 0, 7, bytes(4)),
        frame(frames.CONTINUATION, 4, 1, b""),
        frame(frames.HEADERS, 0, 1, BLOCK) + frame(frames.PING, 0, 0, bytes(8)),
        headers(1, b"\xff\xff\xff\xff\xff"),
        frames.HEAD.pack((1 << 23) << 8 | frames.PING, 0, 0),
        frames.settings_frame({4: 1 << 31}),
        frames.settings_frame({5: 100}),
    ],
)
def test_faults_of_the_connection(octets):
    served = Served()
    served.connection.receive(HELLO)
    served.connection.receive(octets)
    if len(served.streams) == 1 and not served.connection.is_over:
        assert served.streams[0].events == ["fault PROTOCOL_ERROR"]
    else:
        assert served.goaway() not in {None, frames.ErrorCode.NO_ERROR}


def test_streams_that_nobody_reads_do_not_stop_the_others():
    """However many there are: what they hold is bounded by their windows."""
    served = Served()
    client = ClientConnection(ChannelOptions(), BlockMemory(parse_response), MemoryLedger(1 << 30))

    def exchange():
        while True:
            there, back = b"".join(client.take_out()), b"".join(served.connection.take_out())
            if not there and not back:
                return
            served.connection.receive(there)
            for stream in served.streams:
                stream.on_message = lambda each, *, compressed, it=stream: it.hold(len(each))
            client.receive(back)

    exchange()
    calls = [Recorder() for _ in range(20)]
    for call in calls:
        client.open(call, BLOCK)
    exchange()
    for call in calls:
        for _ in range(3 << 6):
            call.send_message(bytes(16 << 10))
    exchange()
    assert all(call.pending_octets for call in calls)
    assert 4 << 20 <= served.ledger.octets <= 20 * ChannelOptions().stream_window_octets
    quick = Recorder()
    client.open(quick, BLOCK)
    quick.send_message(b"quick", last=True)
    exchange()
    assert served.streams[-1].events == ["end"]
    for stream in served.streams:
        stream.release(stream.unread)
    exchange()
    assert not served.connection.is_over


def test_calls_that_are_given_up_count_for_more_in_a_turn():
    served = Served(streams_max=5000)
    served.connection.receive(HELLO + headers(1, b"\x20" + BLOCK))
    octets = b"".join(
        headers(number) + frame(frames.RST_STREAM, 0, number, bytes(4))
        for number in range(3, 1001, 2)
    )
    served.connection.receive(octets)
    assert len(served.streams) - 1 == 128 // 5 + 1
    assert served.connection.has_more_work


def data_of(octets):
    """Streams and lengths of the DATA frames in octets."""
    found, at = [], 0
    while at < len(octets):
        word, _, stream_id = frames.HEAD.unpack_from(octets, at)
        if word & 255 == frames.DATA:
            found.append((stream_id, word >> 8))
        at += 9 + (word >> 8)
    return found


@pytest.mark.parametrize("paused", [False, True])
def test_small_messages_go_before_large_ones_that_wait(paused):
    served = Served()
    window = frames.settings_frame({4: (1 << 31) - 1, 5: 1 << 20})
    grant = frames.window_frame(0, 1 << 30)
    served.connection.receive(
        frames.PREFACE + window + grant + headers(1, b"\x20" + BLOCK) + headers(3) + headers(5)
    )
    large, small, other = served.streams
    served.connection.paused = paused
    large.send_message(bytes(1 << 20))
    small.send_message(b"small")
    other.send_message(b"other")
    served.connection.paused = False
    sent = data_of(served.take())
    assert [stream for stream, _ in sent[:3]] == [3, 5, 1]
    assert sum(length for stream, length in sent if stream == 1) == 512 << 10
    assert data_of(served.take())[0] == (1, 128 << 10)
