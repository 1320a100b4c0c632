"""What a client answers operators."""

import asyncio
import threading

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane_record import RecordFields, encode_record
from ariane_sdk import PushSettings
from ariane_sdk.client import operator_answers as module
from ariane_sdk.client.operator_answers import OperatorAnswers, settings_facts, stacks_now
from ariane_sdk.consumer.delivery.hand_out import DeliveryGate
from ariane_sdk.consumer.delivery.requested_consumption import RequestedConsumption
from ariane_sdk.errors import MessagesFailed
from ariane_sdk.runtime.clock import SystemClock


def question(*, with_stacks=False):
    return question_pb.ClientStateQuestion(question_id="q", with_stacks=with_stacks)


async def inner_wait(event):
    await event.wait()


async def outer_wait(event):
    await inner_wait(event)


def wait_in_thread(running, event):
    running.set()
    event.wait()


async def test_stacks_name_the_places_where_threads_and_tasks_are():
    waited, running, ended = asyncio.Event(), threading.Event(), threading.Event()
    task = asyncio.create_task(outer_wait(waited), name="the-task")
    thread = threading.Thread(target=wait_in_thread, args=(running, ended), name="the-thread")
    thread.start()
    await asyncio.to_thread(running.wait)
    await asyncio.sleep(0)
    told, cut = stacks_now()
    ended.set()
    waited.set()
    await task
    await asyncio.to_thread(thread.join)
    assert not cut
    by_name = {stack.name: stack for stack in told}
    of_task, of_thread = by_name["the-task"], by_name["the-thread"]
    assert [frame.rpartition(" in ")[2] for frame in of_task.frames] == [
        *("outer_wait", "inner_wait", "Event.wait"),
    ]
    assert (of_task.is_thread, of_thread.is_thread) == (False, True)
    assert any(frame.endswith(" in wait_in_thread") for frame in of_thread.frames)
    assert f"{__file__}:" in of_task.frames[0]


async def test_of_very_many_tasks_only_those_that_are_told_are_looked_into(monkeypatch):
    looked_into = []
    of_awaited = module._of_awaited
    monkeypatch.setattr(
        module, "_of_awaited", lambda one: looked_into.append(one) or of_awaited(one)
    )
    waited = asyncio.Event()
    tasks = [asyncio.create_task(waited.wait(), name=f"waits-{n:05}") for n in range(2000)]
    await asyncio.sleep(0)
    told, cut = stacks_now()
    assert cut
    assert len(told) == module.STACKS_MAX
    assert len(looked_into) <= module.STACKS_MAX
    assert [each.name for each in told if each.name.startswith("waits-")] == [
        f"waits-{n:05}" for n in range(sum(each.name.startswith("waits-") for each in told))
    ]
    waited.set()
    await asyncio.gather(*tasks)


def test_of_a_deep_stack_only_what_is_told_is_named(monkeypatch):
    named = []
    place = module._place
    monkeypatch.setattr(module, "_place", lambda *where: named.append(where) or place(*where))

    async def ask():
        return stacks_now()

    def deep(count):
        return deep(count - 1) if count else asyncio.run(ask())

    told, _ = deep(500)
    [here] = [each for each in told if each.name == "MainThread"]
    assert len(here.frames) == module.STACK_FRAMES_MAX
    assert here.frames[-1].endswith("in stacks_now")
    assert len(named) <= module.STACK_FRAMES_MAX * (threading.active_count() + 1)


async def test_a_state_is_bounded_and_stacks_can_be_refused(monkeypatch):
    queues = [question_pb.ClientQueueState(topic="t", queue_id=number) for number in range(3)]
    answers = OperatorAnswers(facts=lambda: {"x": "y" * 1000}, queues=lambda: queues)
    state = answers.state(question())
    assert (state.question_id, list(state.queues), list(state.stacks)) == ("q", queues, [])
    assert state.facts["sdk_version"]
    assert len(state.facts["x"]) == module.FACT_LENGTH_MAX
    assert not state.truncated
    assert answers.state(question(with_stacks=True)).stacks
    monkeypatch.setattr(module, "QUEUES_MAX", 2)
    monkeypatch.setattr(module, "STACKS_BYTES_MAX", 1)
    state = answers.state(question(with_stacks=True))
    assert (len(state.queues), len(state.stacks), state.truncated) == (2, 0, True)
    silent = OperatorAnswers(facts=dict, stacks_allowed=False)
    state = silent.state(question(with_stacks=True))
    assert "stacks_on_request" in state.stacks_refusal
    assert not state.stacks


def test_settings_are_told_without_what_may_be_a_secret():
    facts = settings_facts(PushSettings(otlp_endpoint="http://user:secret@collector"))
    assert facts["settings.queue_message_count_max"] == "1000"
    assert not any("secret" in value for value in facts.values())


RECORD = encode_record(
    RecordFields(topic="orders", body=b"again", queue_id=3, queue_offset=7, commit_log_offset=0)
)


def consumption(listener, group="group"):
    return RequestedConsumption(listener, DeliveryGate(), group=group, clock=SystemClock())


def wanted(record=RECORD):
    return question_pb.ConsumeQuestion(question_id="q", consumer_group="group", record=record)


async def test_the_listener_gets_the_message_and_what_it_does_is_told():
    got = []

    async def listen(messages):
        got.extend(messages)

    answer = await consumption(listen).consume(wanted(), "broker-a")
    assert (answer.question_id, answer.outcome, answer.cause) == (
        *("q", question_pb.CONSUME_OUTCOME_CONSUMED, ""),
    )
    assert answer.HasField("duration")
    [message] = got
    assert (message.body, message.message_queue.broker_name, message.queue_id) == (
        *(b"again", "broker-a", 3),
    )


async def test_a_listener_that_fails_is_told_in_one_line():
    async def raises(messages):
        raise ValueError("first\nsecond")

    async def fails(messages):
        raise MessagesFailed(messages, "no stock")

    answer = await consumption(raises).consume(wanted(), "broker-a")
    assert (answer.outcome, answer.cause) == (
        *(question_pb.CONSUME_OUTCOME_RAISED, r"ValueError('first\nsecond')"),
    )
    answer = await consumption(fails).consume(wanted(), "broker-a")
    assert answer.outcome == question_pb.CONSUME_OUTCOME_RETRY
    assert "no stock" in answer.cause


async def test_what_is_no_message_or_of_another_group_is_refused():
    async def listen(messages):
        raise AssertionError

    for record in (b"", b"x", RECORD[:-1], RECORD * 2):
        answer = await consumption(listen).consume(wanted(record), "broker-a")
        assert answer.outcome == question_pb.CONSUME_OUTCOME_REFUSED, record
    answer = await consumption(listen, "other").consume(wanted(), "broker-a")
    assert answer.outcome == question_pb.CONSUME_OUTCOME_REFUSED


async def test_one_message_at_a_time_is_consumed_on_request():
    go, said = asyncio.Event(), asyncio.Queue()

    async def listen(messages):
        await go.wait()

    answers = OperatorAnswers(facts=dict, consume=consumption(listen).consume)
    answers.consume(wanted(), "broker-a", said.put_nowait)
    answers.consume(wanted(), "broker-a", said.put_nowait)
    refused = (await said.get()).consume_answer
    assert refused.outcome == question_pb.CONSUME_OUTCOME_REFUSED
    assert "another message" in refused.cause
    go.set()
    assert (await said.get()).consume_answer.outcome == question_pb.CONSUME_OUTCOME_CONSUMED
    answers.consume(wanted(), "broker-a", said.put_nowait)
    assert (await said.get()).consume_answer.outcome == question_pb.CONSUME_OUTCOME_CONSUMED
    deaf = OperatorAnswers(facts=dict)
    deaf.consume(wanted(), "broker-a", said.put_nowait)
    assert (await said.get()).consume_answer.outcome == question_pb.CONSUME_OUTCOME_REFUSED


async def test_after_its_end_a_client_consumes_nothing_on_request():
    said = asyncio.Queue()

    async def listen(messages):
        raise AssertionError

    answers = OperatorAnswers(facts=dict, consume=consumption(listen).consume)
    await answers.close(60)
    answers.consume(wanted(), "broker-a", said.put_nowait)
    refused = said.get_nowait().consume_answer
    assert (refused.outcome, refused.cause) == (
        question_pb.CONSUME_OUTCOME_REFUSED,
        "the consumer is closing",
    )
