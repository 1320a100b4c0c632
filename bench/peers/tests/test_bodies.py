import driver_loop
import numpy as np
import pytest
from peer_bench.bodies import POOL_SIZE, body_pool, digest_of, expected_digest


@pytest.mark.parametrize("size", [8, 128, 1024])
def test_drivers_make_the_bodies_that_the_harness_expects(size):
    assert driver_loop.bodies_of(size) == body_pool(size)
    assert all(len(body) == size for body in body_pool(size))


def test_a_body_is_its_number_and_a_pattern():
    assert body_pool(10)[258] == bytes([2, 1, 0, 0, 0, 0, 0, 0, 255, 30])


@pytest.mark.parametrize("count", [1, POOL_SIZE, 2 * POOL_SIZE + 17])
def test_the_digest_of_a_load_is_the_expected_one_in_any_order(count):
    load = {"body_bytes": 128, "count": count, "batch": 100}
    bodies = list(driver_loop.load_bodies(load))
    assert len(bodies) == count
    assert digest_of(reversed(bodies)) == expected_digest(128, count)
    assert driver_loop.digest_of(bodies) == expected_digest(128, count)
    assert [body for batch in driver_loop.load_batches(load) for body in batch] == bodies


def test_a_digest_tells_losses_repeats_and_flipped_bits():
    bodies = list(driver_loop.load_bodies({"body_bytes": 64, "count": 100}))
    expected = expected_digest(64, 100)
    assert digest_of(bodies[1:]) != expected
    assert digest_of([*bodies[1:], bodies[1]]) != expected
    assert digest_of([bytes([bodies[0][0] ^ 1]) + bodies[0][1:], *bodies[1:]]) != expected


@pytest.mark.parametrize("size", [8, 128, 129])
def test_the_digest_of_rows_is_that_of_the_bodies(size):
    bodies = list(driver_loop.load_bodies({"body_bytes": size, "count": POOL_SIZE + 9}))
    octets = np.frombuffer(b"".join(bodies), np.uint8)
    assert driver_loop.digest_of_rows(octets, size) == digest_of(bodies)
    for place in (0, 7, size - 1, 5 * size, len(octets) - 1):
        damaged = octets.copy()
        damaged[place] ^= 0x80
        rows = [row.tobytes() for row in damaged.reshape(-1, size)]
        assert driver_loop.digest_of_rows(damaged, size) == digest_of(rows) != digest_of(bodies)
