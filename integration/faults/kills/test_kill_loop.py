"""kill -9 again and again on one store: what was acknowledged is there, offsets are dense."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from numbered_writer import config, numbers_in, start_writer

from ariane_storage import FlushMode, Store

SEED = int(os.environ.get("KILL_SEED", "7"))

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("loops", [10, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", list(FlushMode))
def test_kill_loop(tmp_path: Path, mode: FlushMode, loops: int) -> None:
    chance = random.Random(SEED)
    root = tmp_path / "store"
    present = 0
    for loop in range(loops):
        writer = start_writer(root, mode, SEED + loop)
        for _ in range(chance.randrange(1, 40)):
            writer.read_line()
        time.sleep(chance.random() * 0.005)
        writer.kill()

        with Store.open(root, config(mode)) as store:
            numbers = sorted(numbers_in(store))
            assert not store.damage, f"seed {SEED} loop {loop}"
        assert numbers == list(range(len(numbers))), f"a hole: seed {SEED} loop {loop}"
        assert len(numbers) >= writer.acknowledged, f"lost: seed {SEED} loop {loop}"
        assert len(numbers) >= present
        present = len(numbers)
    assert present > loops
