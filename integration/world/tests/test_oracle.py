"""Each promise is missed where it is broken, by its name, and a sound history breaks none."""

import copy

import pytest
from played_world.history import Delivered, History, Moved, Place, Refusal, Sent, Told
from played_world.oracle import PROMISES, anomalies


def at(offset, topic="orders", broker="a"):
    return Place(topic, broker, 0, offset)


def sent(history, value, place=None, *, outcome="acknowledged", topic="orders", **named):
    number = len(history.sent)
    message = Sent(value, topic, named.pop("group", ""), number, float(number), **named)
    message.end(outcome, number + 0.5, place)
    history.sent[value] = message
    return message


def got(history, value, place, at_s=50.0, group="strict"):
    history.delivered.append(Delivered(at_s, group, f"{group}-1", place, value))
    history.finish(group, value)


@pytest.fixture
def history():
    """Three messages of one message group, consumed in order; one is received, and settled."""
    history = History(lags={})
    history.take_part("strict", ["orders"], ordered=True)
    history.take_part("takers", ["deals"], ordered=False)
    history.take_part("late", ["orders"], ordered=False, is_late=True)
    history.begin("late", 40.0)
    for offset, value in enumerate(("m0", "m1", "m2")):
        sent(history, value, at(offset), group="g")
        got(history, value, at(offset))
    sent(history, "deal", at(0, "deals"), topic="deals")
    got(history, "deal", at(0, "deals"), group="takers")
    history.settled["takers", "deal"] = 51.0
    return history


def kinds(history):
    return sorted({word.partition(":")[0] for word in anomalies(history)})


def test_a_sound_history_breaks_no_promise(history):
    assert kinds(history) == []
    sent(history, "perhaps", outcome="unknown")
    got(history, "perhaps", at(3))
    assert kinds(history) == [], "what has no outcome may be there"
    got(history, "m1", at(1))
    got(history, "m2", at(2))
    assert kinds(history) == [], "what was not settled may come again, in order"


def test_repeats_are_counted_by_group(history):
    got(history, "m1", at(1))
    got(history, "deal", at(0, "deals"), at_s=50.0, group="takers")
    got(history, "deal", at(1, "deals"), at_s=50.0, group="takers")
    assert history.repeats == {"strict": 1, "takers": 1, "late": 0}


def consumed_in_wrong_order(history):
    sent(history, "m3", at(4), group="g")
    sent(history, "m4", at(3), group="g")
    got(history, "m4", at(3))
    got(history, "m3", at(4))


def seen_at(value, place, **named):
    return lambda history: got(history, value, place, **named)


def told(history):
    sent(history, "other", at(2))
    history.finish("strict", "other")


def deleted(history):
    sent(history, "old", at(0, "brief"), topic="brief")
    history.begin_deletion("brief", 60.0).end_s = 61.0
    got(history, "old", at(0, "brief"), at_s=61.0 + 76.0, group="takers")


def early(history):
    sent(history, "delayed", outcome="acknowledged", topic="deals", due_s=60.0)
    got(history, "delayed", at(1, "deals"), at_s=59.0, group="takers")


def fallen(history):
    for at_s, offset, process_id in ((10.0, 7, 1), (20.0, 5, 2), (30.0, 6, 2), (40.0, 5, 2)):
        history.offsets.append(Told(at_s, "strict", ("orders", "a", 0), offset, process_id))


def not_again(history):
    """Set back to 1, it gets 2 alone once more."""
    history.note_reset("strict", 60.0, "orders")
    history.moves.append(Moved(60.0, "strict", at(1)))
    got(history, "m2", at(2), at_s=61.0)


def left_open(history):
    """Its sender was killed before it had decided."""
    message = Sent("half", "deals", "", 9, 9.0, is_half=True)
    history.sent["half"] = message
    history.end_sender("half")
    got(history, "half", at(1, "deals"), group="takers")


def refused(history):
    sent(history, "no", outcome="refused", topic="deals")
    got(history, "no", at(1, "deals"), group="takers")


def refusing(what, reason):
    refusal = Refusal(what, reason, "orders", f"refused: {reason}")
    return lambda history: history.refusals.append(refusal)


BROKEN = {
    "lost": lambda history: sent(history, "m3", at(3)),
    "never begun": lambda history: history.take_part("new", ["deals"], ordered=False, is_late=True),
    "phantom": seen_at("nobody's", at(3)),
    "refused-but-stored": refused,
    "rolled back-but-stored": left_open,
    "inconsistent-offset": told,
    "duplicate": seen_at("m2", at(3)),
    "leap": seen_at("m2", at(4)),
    "overtaken": consumed_in_wrong_order,
    "early": early,
    "returned": seen_at("deal", at(0, "deals"), at_s=52.0, group="takers"),
    "revived": deleted,
    "fell": fallen,
    "forgotten": not_again,
    "cut": refusing("drop", "QUEUE_CUT"),
    "locks": refusing("_renew_at", "QUEUE_NOT_FOUND"),
    "lag": lambda history: history.lags.update({"strict in orders/0": 1}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_broken_is_found_by_its_name(history, kind):
    BROKEN[kind](history)
    assert kind in kinds(history)


def test_offsets_fall_where_they_are_set_back_and_with_a_broker(history):
    fallen(history)
    (fell,) = anomalies(history)
    assert "from 6 at 30.000 s to 5" in fell
    history.note_reset("strict", 35.0, "deals")
    assert kinds(history) == ["fell"], "that was another topic"
    history.note_reset("strict", 35.0)
    assert kinds(history) == []


def test_a_group_that_was_set_back_gets_what_it_had_unless_it_is_set_back_anew(history):
    not_again(history)
    (forgotten,) = anomalies(history)
    assert "was set back to 1" in forgotten
    again = copy.deepcopy(history)
    got(again, "m1", at(1), at_s=62.0)
    assert kinds(again) == []
    history.note_reset("strict", 63.0, "deals")
    assert kinds(history) == ["forgotten"], "that was another topic"
    history.note_reset("strict", 63.0, "orders")
    assert kinds(history) == [], "nobody knows from where on it gets all then"


def test_what_comes_between_the_question_and_the_answer_counts_as_come_again(history):
    not_again(history)
    got(history, "m1", at(1), at_s=60.0)
    assert kinds(history) == []


def test_what_a_member_wants_of_a_topic_that_was_deleted_may_be_refused(history):
    history.refusals.append(Refusal("drop", "QUEUE_CUT", "brief", "dropped"))
    history.refusals.append(Refusal("_take_over", "TOPIC_NOT_FOUND", "brief", "later"))
    assert kinds(history) == ["cut", "locks"]
    history.begin_deletion("brief", 60.0)
    assert kinds(history) == []


def test_clients_that_were_held_up_have_more_in_hand_of_a_deleted_topic(history):
    sent(history, "old", at(0, "brief"), topic="brief")
    history.begin_deletion("brief", 60.0).end_s = 61.0
    got(history, "old", at(0, "brief"), at_s=61.0 + 21.0, group="takers")
    assert kinds(history) == ["revived"]
    history.was_held_up = True
    assert kinds(history) == []


def test_nobody_who_tells_of_lags_is_no_sound_end(history):
    history.lags = None
    assert kinds(history) == ["lag"]


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_can_be_broken(history, promise):
    """A check that nothing breaks would check nothing."""
    assert not [*promise(history)]
    broken = [copy.deepcopy(history) for _ in BROKEN]
    for each, break_it in zip(broken, BROKEN.values(), strict=True):
        break_it(each)
    assert any(any(promise(each)) for each in broken)
