"""Consumers that are called on another loop than their own."""

import asyncio

import pytest

from ariane_sdk import PullConsumer, PushConsumer, ReceiveConsumer, errors


async def test_consumers_of_another_loop_are_refused(cluster, topic):
    async def listen(_messages):
        pass

    push = PushConsumer(
        cluster.name_servers, group="homes", subscriptions={topic: "*"}, listener=listen
    )
    pull = PullConsumer(cluster.name_servers, group="homes-2", subscriptions={topic: "*"})
    receive = ReceiveConsumer(cluster.name_servers, group="homes-3", subscriptions={topic: "*"})
    async with push, pull, receive:
        for use in (push.close, pull.poll, receive.receive_batch):
            with pytest.raises(errors.ClientOnOtherLoop):
                await asyncio.to_thread(asyncio.run, use())
