"""Each anomaly is found by its name, and in a sound history there is none."""

import copy

import pytest
from partition_soak.anomalies import anomalies
from partition_soak.history import Entry, History, Outcome, Poll, Send


def stored(value, offset, *, client="c", batch=None, queue=0, broker="a", log=None, repeated=False):
    batch = offset if batch is None else batch
    log = offset * 100 if log is None else log
    return Send(client, batch, value, queue, Outcome.STORED, offset, log, broker, repeated)


def entries(*values, begin=0):
    return [Entry(begin + place, value) for place, value in enumerate(values)]


@pytest.fixture
def history():
    """Four values in a queue; two brokers were primary one after the other."""
    return History(
        sends=[
            stored("v0", 0),
            stored("v1", 1),
            stored("v2", 2, broker="b"),
            stored("v3", 3, batch=2, broker="b"),
            Send("c", 4, "lost", 0, Outcome.REFUSED),
            Send("c", 5, "perhaps", 0),
        ],
        polls=[Poll("r", 0, entries("v0", "v1")), Poll("r", 0, entries("v2", "v3", begin=2))],
        final={0: entries("v0", "v1", "v2", "v3")},
        epochs=[(1, 0), (2, 200)],
    )


def names(history):
    return sorted({anomaly.name for anomaly in anomalies(history)})


def test_a_sound_history_has_none(history):
    assert names(history) == []
    history.final[0].append(Entry(4, "perhaps"))
    assert names(history) == [], "what has no outcome may be there"
    # Who knows from its log that it was stored need not have stored it.
    history.sends[1] = stored("v1", 1, broker="b", repeated=True)
    assert names(history) == []


def moved(value, offset):
    return lambda h: h.final.update({0: [*h.final[0], Entry(offset, value)]})


def polled(*found, begin):
    return lambda h: h.polls.append(Poll("r", 0, entries(*found, begin=begin)))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (moved("v1", 4), ["duplicate"]),
        (moved("lost", 4), ["G1a"]),
        (moved("nobody", 4), ["invented"]),
        (polled("perhaps", begin=4), ["dirty-read"]),
        (polled("v2", begin=2), ["nonmonotonic-poll"]),
        (polled("v3", begin=3), ["nonmonotonic-poll"]),
        (
            lambda h: h.polls.pop(0) and h.polls.insert(0, Poll("r", 0, entries("v0"))),
            ["poll-skip"],
        ),
        (
            lambda h: h.polls.append(Poll("s", 0, [Entry(0, "v0"), Entry(2, "v2")])),
            ["int-poll-skip"],
        ),
        (
            lambda h: h.polls.append(Poll("s", 0, [Entry(1, "v1"), Entry(0, "v0")])),
            ["int-nonmonotonic-poll"],
        ),
        (lambda h: h.final.update({0: h.final[0][:3]}), ["dirty-read", "unseen"]),
        (
            lambda h: (h.final.update({0: h.final[0][:3]}), h.polls.pop()),
            ["unseen"],
        ),
        (lambda h: h.final.update({0: h.final[0][1:]}), ["dirty-read", "lost-write"]),
        (
            lambda h: h.sends.append(stored("other", 1, client="d")),
            ["inconsistent-offsets", "lost-write"],
        ),
        (lambda h: h.sends.insert(0, h.sends.pop(1)), ["nonmonotonic-send"]),
        (lambda h: h.sends.insert(2, h.sends.pop(3)), ["int-nonmonotonic-send"]),
        (lambda h: h.sends.__setitem__(0, stored("v0", 0, broker="b")), ["two-primaries"]),
    ],
)
def test_each_is_found(history, change, found):
    history = copy.deepcopy(history)
    change(history)
    assert names(history) == found


def test_what_is_lost_is_told_by_where_it_lay(history):
    history.final[0] = history.final[0][1:3]
    told = {(one.name, one.what.rpartition(": ")[2]) for one in anomalies(history)}
    assert {("lost-write", "prefix"), ("unseen", "postfix")} <= told
