import time

import numpy as np
import pytest

from ariane_filter.jail.jailed_filter import JailedFilter
from ariane_filter.jail.limits import FilterLanguage, FilterModule, JailLimits
from ariane_filter.jail.process import JailLauncher
from ariane_record.layout import SystemFlag
from ariane_record.testing.block_encoder import BlockEncoder


class RecordedLauncher:
    """Starts real workers, and knows them."""

    def __init__(self):
        self.processes = []

    async def __call__(self, language, memory_bytes):
        process = await JailLauncher()(language, memory_bytes)
        self.processes.append(process)
        return process


@pytest.fixture
def launcher():
    return RecordedLauncher()


@pytest.fixture
async def jailed(jail, launcher):
    """Makes filters whose pauses are noted and not kept, and ends them."""
    filters = []

    def make(code, *, language=FilterLanguage.PYTHON, **limits):
        async def sleep(seconds):
            made.pauses.append(seconds)

        code = code.encode() if isinstance(code, str) else code
        limits = {"batch_s": 120.0, "start_s": 120.0, **limits}
        made = JailedFilter(
            FilterModule(language, code),
            JailLimits(**limits),
            launch=launcher,
            monotonic=time.monotonic,
            sleep=sleep,
        )
        made.pauses = []
        filters.append(made)
        return made

    yield make
    for each in filters:
        await each.close()


@pytest.fixture(scope="session")
def block():
    """Records of flights, with the sizes: three origins in turn, delays from 0 up."""

    def make(count=9, *, bodies=None, compressed=False):
        flag = int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB) if compressed else 0
        encoder = BlockEncoder("flights", size_bytes_max=1 << 26)
        for number in range(count):
            encoder.add(
                body=b"body" if bodies is None else bodies[number],
                system_flag=flag,
                born_timestamp_ms=1,
                tag="UA",
                keys=[f"key-{number}"],
                properties={
                    "origin": ("JFK", "LGA", "EWR")[number % 3],
                    "dep_delay": str(number),
                },
            )
        made = encoder.finish()
        return bytes(made.records), np.asarray(made.sizes)

    return make
