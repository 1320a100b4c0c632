"""Streams of producers at a closed broker: who begins too many loses his own."""


async def test_a_user_who_may_only_send_does_not_crowd_out_the_streams_of_another(running_closed):
    rules = "anna: allow PUBLISH topic orders", "mallory: allow PUBLISH topic orders"
    async with running_closed(*rules, producer_streams_max=10) as broker:
        root, anna, mallory = [await broker.of(name) for name in ("root", "anna", "mallory")]
        await root.create_topic("orders")
        first = await anna.store("orders", [b"1"], sequence=(7, 0, 0))
        for producer_id in range(100, 140):
            await mallory.store("orders", [b"x"], sequence=(producer_id, 0, 0))
        repeated = await anna.store("orders", [b"1"], sequence=(7, 0, 0))
        assert repeated.duplicate
        assert repeated.first_queue_offset == first.first_queue_offset
        (lost,) = await mallory.append(mallory.batch("orders", [b"y"], sequence=(100, 0, 1)))
        assert lost.error is not None
