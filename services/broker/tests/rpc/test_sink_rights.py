"""To whom sinks of a closed broker belong."""

from __future__ import annotations

from ariane.broker.v1 import sink_service_pb2 as sink_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb


async def test_a_sink_belongs_to_who_noted_it_first(running_closed, refused):
    sender = "allow PUBLISH topic orders"
    async with running_closed(
        f"anna: {sender}", f"bert: {sender}", f"olga: {sender}; allow DELETE sink q"
    ) as broker:
        root, anna, bert = [await broker.of(name) for name in ("root", "anna", "bert")]
        await root.create_topic("orders")
        home = sink_pb.SinkHome(broker_name="broker-a")
        note = sink_pb.NoteSinkHomeRequest(query_id="q", topic="orders", home=home)
        get = sink_pb.GetSinkHomeRequest(query_id="q", topic="orders")
        commit = transaction_pb.CommitBatchRequest(query_id="q")
        abort = transaction_pb.AbortBatchRequest(query_id="q", batch_id=7)
        await anna.sinks.NoteSinkHome(note)
        await anna.sinks.NoteSinkHome(note)
        assert (await anna.sinks.GetSinkHome(get)).home.broker_name == "broker-a"
        delete = sink_pb.DeleteSinkRequest(query_id="q")
        for call in (
            bert.sinks.NoteSinkHome(note),
            bert.sinks.GetSinkHome(get),
            bert.sinks.DeleteSink(delete),
            bert.transactions.CommitBatch(commit),
            bert.transactions.AbortBatch(abort),
            bert.transactions.GetBatchProgress(
                transaction_pb.GetBatchProgressRequest(query_id="q")
            ),
        ):
            assert (await refused(call)).reason == "ACCESS_DENIED"
        await anna.transactions.AbortBatch(abort)
        await (await broker.of("olga")).sinks.DeleteSink(delete)


async def test_a_sink_that_an_operator_moved_belongs_to_who_writes_to_it_next(
    running_closed, refused
):
    """Nobody knew the sink, so nobody owned it; the operator neither sends nor owns."""
    sender = "allow PUBLISH topic orders"
    async with running_closed(
        f"anna: {sender}",
        f"bert: {sender}",
        "carl: allow PUBLISH topic other",
        "olga: allow UPDATE sink q*",
    ) as broker:
        root, anna, bert, carl, olga = [
            await broker.of(name) for name in ("root", "anna", "bert", "carl", "olga")
        ]
        await root.create_topic("orders")
        for name, topic in ("q", "orders"), ("q-rows", ""):
            home = sink_pb.SinkHome(broker_name="broker-a", move_count=1)
            note = sink_pb.NoteSinkHomeRequest(query_id=name, topic=topic, home=home)
            get = sink_pb.GetSinkHomeRequest(query_id=name, topic=topic)
            progress = transaction_pb.GetBatchProgressRequest(query_id=name)
            commit = transaction_pb.CommitBatchRequest(query_id=name)
            delete = sink_pb.DeleteSinkRequest(query_id=name)
            await olga.sinks.NoteSinkHome(note)
            await olga.sinks.NoteSinkHome(note)
            if topic:
                untold = sink_pb.GetSinkHomeRequest(query_id=name)
                assert (await refused(carl.sinks.GetSinkHome(untold))).reason == "ACCESS_DENIED"
            assert (await refused(anna.sinks.DeleteSink(delete))).reason == "ACCESS_DENIED"
            await bert.transactions.GetBatchProgress(progress)
            await anna.sinks.GetSinkHome(get)
            await anna.sinks.NoteSinkHome(note)
            await anna.transactions.CommitBatch(commit)
            await anna.transactions.GetBatchProgress(progress)
            for call in (
                bert.sinks.GetSinkHome(get),
                bert.sinks.NoteSinkHome(note),
                bert.transactions.CommitBatch(commit),
                bert.transactions.GetBatchProgress(progress),
                olga.transactions.GetBatchProgress(progress),
            ):
                assert (await refused(call)).reason == "ACCESS_DENIED"
            note.home.move_count = 2
            await olga.sinks.NoteSinkHome(note)
            await anna.sinks.DeleteSink(delete)


async def test_a_user_without_the_right_to_send_notes_no_sink(running_closed, refused):
    """A sink whose rows name topics names none itself, and each note is a record of the log."""
    async with running_closed(
        "anna: allow PUBLISH topic order-*", "bert: allow SUBSCRIBE topic *; allow CREATE group *"
    ) as broker:
        anna, bert = [await broker.of(name) for name in ("anna", "bert")]
        home = sink_pb.SinkHome(broker_name="broker-a")
        note = sink_pb.NoteSinkHomeRequest(query_id="q", home=home)
        assert (await refused(bert.sinks.NoteSinkHome(note))).reason == "ACCESS_DENIED"
        assert (await anna.sinks.NoteSinkHome(note)).home.broker_name == "broker-a"
