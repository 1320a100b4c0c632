"""The verdict finds each kind of wrong in ledgers that were made for it."""

import mmap
from itertools import islice
from random import Random

import pytest
from message_soak.chaos import Kind, Manner, disturbances
from message_soak.clocks import BrokerClock
from message_soak.ledger import LedgerFile, Receipt, SentLedger, read_receipts, read_stalls
from message_soak.verdict import Ending, Stall, given_up, judge_group, repeats_max


def sent(acknowledged, *, intended=(), refused=()):
    everything = {*acknowledged, *intended, *refused}
    return {"p0": SentLedger(everything, set(acknowledged), set(), set(refused))}


def receipt(number, *, at=None, queue="broker-a/0", time_ns=None, producer="p0"):
    at = number if at is None else at
    return Receipt(at if time_ns is None else time_ns, queue, at, producer, number)


SECOND = 1_000_000_000


def judge(ledgers, receipts, group="ordered-averaging", endings=()):
    return judge_group(group, ledgers, {f"{group}.0": receipts}, endings=endings)


def killed(name="ordered-averaging.0", *, kind=Kind.CONSUMER, manner=Manner.KILL, at_s=10.0):
    return Ending(kind, name, manner, round(at_s * SECOND))


def test_all_is_well():
    findings = judge(sent({0, 4, 8}, intended={12, 16}), [receipt(n) for n in (0, 4, 8, 12)])
    assert findings.holds
    assert findings.received == 4
    assert not list(findings.sentences())


def test_a_message_that_nobody_received_counts_as_lost():
    findings = judge(sent({0, 4, 8}), [receipt(0), receipt(8)])
    assert not findings.holds
    assert findings.lost == ["p0.4"]
    assert list(findings.sentences()) == ["ordered-averaging: 1 message lost: p0.4"]


def test_a_message_at_two_offsets_was_stored_twice():
    findings = judge(sent({0, 4}), [receipt(0), receipt(4), receipt(4, at=5)])
    assert findings.stored_twice == ["p0.4"]
    assert not findings.holds


def test_a_later_message_before_an_earlier_one_of_its_group():
    findings = judge(sent({0, 4}), [receipt(4, at=0), receipt(0, at=1)], "averaging")
    assert len(findings.out_of_order) == 1
    assert judge(sent({0, 1}), [receipt(1, at=0), receipt(0, at=1)]).holds, "two message groups"


def test_a_message_group_in_two_queues():
    findings = judge(sent({0, 4}), [receipt(0), receipt(4, queue="broker-b/0")])
    assert len(findings.out_of_order) == 1


def test_a_group_in_order_does_not_receive_ahead():
    receipts = [receipt(0, time_ns=1), receipt(8, time_ns=2), receipt(4, time_ns=3)]
    assert not judge(sent({0, 4, 8}), receipts).holds
    assert judge(sent({0, 4, 8}), receipts, "averaging").holds
    again = [*receipts[:1], receipt(4, time_ns=2), receipt(8, time_ns=3), receipt(4, time_ns=4)]
    assert judge(sent({0, 4, 8}), again, endings=[killed(at_s=0)]).holds


def test_an_acknowledged_message_is_not_delivered_again():
    first, second = (Receipt(1, "broker-a/0", 0, "p0", 0, attempt) for attempt in (1, 2))
    again = [first, second]

    def judged(settled):
        endings, received = [killed("receiving.0", at_s=0)], {"receiving.0": again}
        return judge_group("receiving", sent({0}), received, settled, endings=endings)

    # The late word of the first attempt's holder is that of a message that is done already.
    assert judged([]).holds
    assert judged([second]).holds
    assert judged([first, second]).holds
    findings = judged([first])
    assert findings.returned == ["p0.0 at broker-a/0@0"]
    assert not findings.holds


def test_repeats_have_a_bound():
    receipts = [receipt(0), receipt(0), receipt(4)]
    assert judge(sent({0, 4}), receipts, endings=[killed(at_s=0)]).holds
    findings = judge(sent({0, 4}), receipts)
    assert (findings.repeated, findings.repeats_max) == (1, 0)
    assert not findings.holds


@pytest.mark.parametrize("stranger", [receipt(9), receipt(0, producer="p7"), receipt(2)])
def test_messages_that_nobody_sent(stranger):
    findings = judge(sent({0}, refused={2}), [receipt(0), stranger])
    assert len(findings.invented) == 1
    assert not findings.holds


def each_tenth(seconds, *, queue="broker-a/0", rate=10):
    """Receipts, ten a second or more, of some seconds."""
    span = range(int(seconds[0] * rate), int(seconds[1] * rate))
    return [receipt(at, queue=queue, time_ns=at * SECOND // rate) for at in span]


def bound(endings, receipts, late_s=0.0):
    return repeats_max(endings, receipts, late_s=late_s)


def test_only_what_keeps_offsets_may_cause_repeats():
    received = {"g.0": each_tenth((0, 20))}
    for harmless in (
        killed("p0", kind=Kind.PRODUCER),
        killed("name-1", kind=Kind.NAME_SERVER),
        killed("other.0"),
    ):
        assert bound([harmless], received) == 0
    handovers = 2 * 11  # Ten a second, and one more at both ends of it.
    assert bound([killed("g.0", manner=Manner.STOP)], received) == handovers
    assert bound([killed("g.0")], received) == handovers + 61, "5 s before, and until it is gone"


def test_a_broker_repeats_what_it_handed_out():
    received = {
        "g.0": each_tenth((0, 20)),
        "g.1": each_tenth((0, 20), queue="broker-b/1", rate=1),
    }
    for manner, unstored in (
        (Manner.STOP, 0),
        (Manner.KILL, 12),
        (Manner.POWER, 12),
        (Manner.JUMP, 0),
    ):
        ending = killed("broker-b", kind=Kind.BROKER, manner=manner)
        assert bound([ending], received) == 2 * 13 + unstored


def test_who_catches_up_repeats_more_than_who_keeps_pace():
    """Not what it got on average, but what it got right before it was killed."""
    slow, fast = each_tenth((0, 8)), each_tenth((8, 10), rate=100)
    [ending] = given_up([Stall("g.0", 10 * SECOND, 9.0), Stall("g.0", 3 * SECOND, 1.0)])
    assert ending == killed("g.0")
    assert bound([ending], {"g.0": slow + fast}) == 2 * 101 + 30 + 200


def test_on_a_machine_with_too_much_to_do_all_takes_longer():
    received = {"g.0": each_tenth((0, 20))}
    assert bound([killed("g.0")], received, late_s=2.0) == 2 * 31 + 81


def test_ledgers_outlive_their_writers(tmp_path):
    path = tmp_path / "sent"
    for lines in (["i 0", "i 1", "a 0"], ["u 1", "i 2", "r 2"]):
        ledger = LedgerFile(path)
        ledger.write(lines)
        ledger.close()
    read = SentLedger.read(path)
    assert (read.intended, read.acknowledged) == ({0, 1, 2}, {0})
    assert (read.unknown, read.refused, read.next_number) == ({1}, {2}, 3)
    assert SentLedger.read(tmp_path / "none").next_number == 0
    stalled = tmp_path / "stalled"
    stalled.write_text("7 2.5\n")
    assert read_stalls(stalled) == [(7, 2.5)]
    received = tmp_path / "received"
    ledger = LedgerFile(received)
    ledger.write([receipt(7).line()])
    ledger.close()
    assert read_receipts(received) == [receipt(7)]


@pytest.mark.parametrize("more", [[], [(Kind.BROKER, Manner.POWER), (Kind.BROKER, Manner.JUMP)]])
def test_a_seed_draws_the_same_and_a_deck_holds_every_pair(more):
    population = dict.fromkeys(Kind, 3)
    pairs = {(kind, manner) for kind in Kind for manner in (Manner.STOP, Manner.KILL)}
    pairs.update(more)

    def draw():
        deck = disturbances(Random(7), population, more)
        return list(islice(deck, len(pairs)))

    assert draw() == draw()
    assert {(each.kind, each.manner) for each in draw()} == pairs


def test_a_clock_is_wrong_by_what_its_file_says(tmp_path):
    path = tmp_path / "clock"
    clock = BrokerClock(path, Random(7))
    assert clock.wind_up()["MOVED_CLOCK"] == str(path)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as seen:
        assert int.from_bytes(seen[:], "little", signed=True) == 0
        ahead_ms = clock.jump()
        assert ahead_ms
        assert int.from_bytes(seen[:], "little", signed=True) == ahead_ms
        clock.be_right()
        assert int.from_bytes(seen[:], "little", signed=True) == 0
