from __future__ import annotations

import contextvars
import io
import json
import logging
from functools import partial

import pytest
import structlog

from ariane_servicekit import configure_logs, get_logger
from ariane_servicekit.observability import logs
from ariane_servicekit.observability.logs import LineBudget
from ariane_servicekit.rpc.calls import Call, enter_call


@pytest.fixture
def lines():
    """Configure logs into a buffer; return a function that reads them."""
    root = logging.getLogger()
    kept = root.handlers[:], root.level
    buffer = io.StringIO()

    def read(**settings):
        if settings:
            configure_logs("probe", stream=buffer, **settings)
            return None
        return [json.loads(line) for line in buffer.getvalue().splitlines()]

    read.text = buffer.getvalue
    yield read
    root.handlers[:], root.level = kept
    structlog.reset_defaults()


def test_a_line_is_one_json_object_with_fixed_keys_first(lines):
    lines(log_format="json")
    get_logger("some.module").info("thing_done", topic="orders\nfake line", count=3)
    [line] = lines()
    assert list(line) == ["time", "level", "event", "service", "component", "topic", "count"]
    assert line["time"].endswith("Z")
    assert (line["level"], line["event"], line["service"]) == ("info", "thing_done", "probe")
    assert line["component"] == "some.module"
    assert line["topic"] == "orders\nfake line"


def test_lines_within_a_call_bear_its_request_id(lines):
    def within_a_call():
        enter_call(Call("/a.B/C", "req-1", context=None))
        get_logger("x").info("thing_done")
        logging.getLogger("library").warning("careful")

    lines(log_format="json")
    # In a context of its own: tests that come later are within no call.
    contextvars.copy_context().run(within_a_call)
    for line in lines():
        assert (line["request_id"], line["method"]) == ("req-1", "/a.B/C")


def test_libraries_take_the_same_way(lines):
    lines(log_format="json")
    logging.getLogger("grpc._cython").warning("port %d", 7)
    [line] = lines()
    assert (line["event"], line["component"], line["level"]) == (
        "port 7",
        "grpc._cython",
        "warning",
    )


def test_connections_that_end_do_not_fill_the_log(lines, monkeypatch):
    seconds = [7.0]
    clocked = partial(LineBudget, monotonic=lambda: seconds[0])
    monkeypatch.setattr(logs, "LineBudget", clocked)
    lines(log_format="json")
    transport = logging.getLogger("ariane_wire.server.server")
    for number in range(1000):
        transport.info("the connection of %s was ended: %s", number, "no HTTP/2")
    transport.warning("certificates are not read again")
    logging.getLogger("elsewhere").info("all the same")
    seconds[0] = 8.0
    transport.info("the connection of %s was ended", 1000)
    told = [line["event"] for line in lines()]
    assert len(told) == logs.TRANSPORT_LINES_PER_S + 3
    assert told[-3:-1] == ["certificates are not read again", "all the same"]
    assert told[-1].endswith("1000 was ended (980 such lines were left out before)")


def test_levels_are_kept(lines):
    lines(log_level="warning")
    log = get_logger("x")
    log.debug("a")
    log.info("b")
    log.warning("c")
    logging.getLogger("library").info("d")
    assert [line["event"] for line in lines()] == ["c"]


def test_debug_is_ours_alone(lines):
    lines(log_level="debug")
    get_logger("x").debug("a")
    logging.getLogger("library").debug("b")
    assert [line["event"] for line in lines()] == ["a"]


def test_traces_hold_no_locals(lines):
    lines(log_format="json")

    def fail(password):
        raise ValueError("wrong")

    try:
        fail("hunter2")
    except ValueError:
        get_logger("x").exception("failed")
        logging.getLogger("library").exception("failed too")
    assert "hunter2" not in lines.text()
    for line in lines():
        assert line["exception"][0]["exc_type"] == "ValueError"
        assert line["exception"][0]["frames"][-1]["name"] == "fail"


def test_text_is_for_people(lines):
    lines(log_format="text")
    get_logger("x").info("thing_done", count=3)
    assert "thing_done" in lines.text()
    assert "count=3" in lines.text()
    assert not lines.text().startswith("{")


def test_a_budget_of_lines_tells_how_many_it_suppressed():
    now = 0.0
    budget = LineBudget(2, lambda: now)
    assert [budget.spend() for _ in range(5)] == [0, 0, None, None, None]
    now = 0.9
    assert budget.spend() is None
    now = 1.0
    assert [budget.spend() for _ in range(3)] == [4, 0, None]
    now = 7.5
    assert budget.spend() == 1
    now = 8.0
    assert budget.spend() == 0


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_foreign_text_moves_nothing_on_a_terminal(lines, log_format):
    foreign = "a\x1b[31mb\u202ec\u2066d\x9b1me\x7f\nf\u2028g"
    lines(log_format=log_format)
    get_logger("probe").info("attached", client_id=foreign)
    written = lines.text()
    assert "attached" in written
    assert written.removesuffix("\n").isprintable()
    if log_format == "json":
        assert json.loads(written)["client_id"] == foreign
