"""Dead letters that a topic does not take: the others are sent, and no run waits for ever."""

from collections import Counter
from dataclasses import replace

import pytest

from ariane.broker.v1.topic_service_pb2 import UpdateTopicRequest
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.namesrv.v1.route_pb2 import TopicPermission
from ariane_pipelines import LetterFilter, redrive
from ariane_pipelines.redrive_ledger import RedriveLedger
from ariane_pipelines.repairs import FAILED
from ariane_wire import blocking

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]


def numbers(*of):
    return Counter(b"%d" % number for some in of for number in some)


@pytest.fixture
def permit(local_cluster):
    """Changes what is allowed on a topic."""

    def permit(topic, permission):
        change = UpdateTopicRequest(topic=topic, permission=permission)
        for broker in local_cluster.brokers:
            with blocking.insecure_channel(broker.address) as channel:
                TopicServiceStub(channel).UpdateTopic(change, timeout=60)

    return permit


def test_letters_without_a_message_group_fail_alone_at_a_topic_of_type_fifo(
    spark, client, topic, give_up, bodies_of, plan
):
    fifo, group = f"{topic}-fifo", f"group-{topic}"
    client.create_topic(fifo, queue_count=1, fifo=True)
    give_up(group, topic, range(8), groups=("g", ""))

    dry = redrive(spark, plan(group, target=fifo, dry_run=True))
    first = redrive(spark, plan(group, target=fifo))

    assert (dry.sent_count, dry.failed_count) == (4, 4)
    assert (first.sent_count, first.failed_count) == (4, 4)
    (cause,) = {letter.cause for letter in first.kept}
    assert f"topic {fifo!r} is of type FIFO and takes only messages with a message group" in cause
    assert bodies_of(fifo) == numbers(range(0, 8, 2))

    def group_them(letter):
        return replace(letter, message_group="late")

    last = redrive(spark, plan(group, target=fifo, repair=group_them))

    assert (last.sent_count, last.failed_count, last.sent_before_count) == (4, 0, 4)
    assert bodies_of(fifo) == numbers(range(8))


class Struck(Exception):
    """The process died here."""


@pytest.mark.parametrize("exactly_once", [True, False])
def test_what_a_topic_does_not_take_is_kept_for_the_next_run(
    spark, client, topic, give_up, bodies_of, plan, permit, monkeypatch, exactly_once
):
    taking, closed, group = topic, f"{topic}-{'x' * 90}", f"group-{topic}"
    client.create_topic(closed, queue_count=1)
    give_up(group, taking, range(4))
    give_up(group, closed, range(4, 8))

    def strike(_ledger, _run):
        raise Struck

    with monkeypatch.context() as patch:
        # Everything is sent, and nobody knows.
        patch.setattr(RedriveLedger, "mark_sent", strike)
        with pytest.raises(Struck):
            redrive(spark, plan(group, wanted=LetterFilter(topic=taking)))
    permit(closed, TopicPermission.TOPIC_PERMISSION_READ)

    refused = redrive(spark, plan(group, exactly_once=exactly_once))

    assert refused.finished_count == 4
    assert (refused.sent_count, refused.failed_count, refused.sent_before_count) == (0, 4, 4)
    assert {letter.outcome for letter in refused.kept} == {FAILED}
    assert all(closed in letter.cause for letter in refused.kept)
    assert bodies_of(taking) == numbers(range(4), range(4))
    permit(closed, TopicPermission.TOPIC_PERMISSION_READ_WRITE)

    last = redrive(spark, plan(group, exactly_once=exactly_once))
    again = redrive(spark, plan(group, exactly_once=exactly_once))

    assert (last.sent_count, last.failed_count, last.finished_count) == (4, 0, 0)
    assert (again.letter_count, again.sent_before_count) == (0, 8)
    assert bodies_of(closed) == numbers(range(4, 8), range(4, 8))


def test_a_planned_run_whose_topic_takes_nothing_keeps_no_others_back(
    spark, new_topic, give_up, bodies_of, plan, permit, monkeypatch, caplog
):
    taking, closed = new_topic(), new_topic()
    group = f"group-{taking}"
    give_up(group, taking, range(4))
    give_up(group, closed, range(4, 8))

    def strike(_ledger):
        raise Struck

    with monkeypatch.context() as patch:
        # Everything is planned, and nothing sent.
        patch.setattr(RedriveLedger, "identity", strike)
        with pytest.raises(Struck):
            redrive(spark, plan(group))
    permit(closed, TopicPermission.TOPIC_PERMISSION_READ)

    refused = redrive(spark, plan(group))

    assert (refused.finished_count, refused.sent_count, refused.failed_count) == (4, 0, 4)
    (refusal,) = refused.finished_refusals
    assert refusal.topic == closed
    warned = f"topic {closed} took no messages of run 1: {refusal.cause}"
    assert warned in caplog.messages
    permit(closed, TopicPermission.TOPIC_PERMISSION_READ_WRITE)
    last = redrive(spark, plan(group))
    assert (last.finished_count, last.sent_count, last.sent_before_count) == (0, 4, 4)
    assert bodies_of(taking) == numbers(range(4), range(4))
    assert bodies_of(closed) == numbers(range(4, 8), range(4, 8))
