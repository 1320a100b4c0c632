"""A replica looks through its log once it follows, and anew when the log may have been cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ariane_broker.following import log_checking
from ariane_broker.following.log_checking import LogChecking
from ariane_storage import Store
from ariane_storage.testing import block_of, small_config


async def test_a_turned_bit_is_missing_once_it_was_come_by(tmp_path, monkeypatch):
    monkeypatch.setattr(log_checking, "STEP_BYTES", 500)
    agreements = 0
    with (
        Store.open(tmp_path / "store", small_config()) as store,
        ThreadPoolExecutor(max_workers=1) as keeper,
    ):
        for number in range(200):
            store.append(block_of("orders", [b"%050d" % number]), 0)
        store.flush()
        checking = LogChecking(store, keeper, agreement_count=lambda: agreements)

        async def steps():
            """Until a place is reached behind which nothing is."""
            count, before = 0, -1
            while checking._place != before:
                before, count = checking._place, count + 1
                await checking.step()
            return count

        await steps()
        assert checking._place == 0, "it follows nobody yet"
        agreements = 1
        assert await steps() > 2, "a step is a part of the log"
        assert checking._place == store.max_offset
        assert store.copying.missing(0) == ()
        [segment, *_] = sorted((tmp_path / "store" / "commitlog").iterdir())
        with segment.open("r+b") as file:
            place = 700
            file.seek(place)
            [byte] = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 4]))
        await steps()
        assert store.copying.missing(0) == ()
        agreements = 2
        await steps()
        [damaged] = store.copying.missing(0)
        assert damaged.begin <= place < damaged.end
