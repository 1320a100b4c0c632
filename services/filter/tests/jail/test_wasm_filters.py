"""WebAssembly filters judge batches in the same jail."""

import zlib

import pytest
import wasmtime

from ariane_filter.jail.errors import FilterFailed, FilterInvalid
from ariane_filter.jail.limits import FilterLanguage
from ariane_record.errors import RecordCorrupted

# Delivers messages whose body begins with J.
BEGINS_WITH_J = """
(module
  (memory (export "memory") 1)
  (func (export "allocate") (param $size i32) (result i32)
    (drop (memory.grow (i32.add (i32.const 1) (i32.div_u (local.get $size) (i32.const 65536)))))
    (i32.const 65536))
  (func (export "filter") (param $batch i32) (param $size i32) (result i32)
    (local $count i32) (local $i i32) (local $entry i32)
    (local.set $count (i32.load (local.get $batch)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $count)))
        (local.set $entry
          (i32.add (i32.add (local.get $batch) (i32.const 4))
            (i32.mul (local.get $i) (i32.const 16))))
        (i32.store8
          (i32.add (i32.add (local.get $batch) (i32.const 4))
            (i32.add (i32.mul (local.get $count) (i32.const 16)) (local.get $i)))
          (i32.and
            (i32.ne (i32.load offset=12 (local.get $entry)) (i32.const 0))
            (i32.eq
              (i32.load8_u (i32.add (local.get $batch) (i32.load offset=8 (local.get $entry))))
              (i32.const 74))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.const 0)))
"""


def module(
    allocate="(drop (memory.grow (i32.const 200))) (i32.const 65536)", judge="(i32.const 0)"
):
    return f"""(module (memory (export "memory") 1)
      (func $a (export "allocate") (param i32) (result i32) {allocate})
      (func (export "filter") (param i32 i32) (result i32) {judge}))"""


@pytest.fixture
def wasm(jailed):
    def make(text, **limits):
        code = bytes(wasmtime.wat2wasm(text))
        return jailed(code, language=FilterLanguage.WASM, **limits)

    return make


async def test_a_module_sees_bodies(wasm, block):
    bodies = [b"", b"J", b"KJ", b"JK"] * 1000
    filter_ = wasm(BEGINS_WITH_J)
    for _ in range(2):
        mask = await filter_.judge(*block(4000, bodies=bodies))
        assert mask.tolist() == [False, True, False, True] * 1000
    assert (await filter_.judge(*block(0))).tolist() == []


async def test_a_module_sees_properties_and_remembers_nothing(wasm, block):
    # Delivers every message when the first property of the first has a name that begins with "o",
    # and a global that counts the batches is still at its first value.
    text = """(module (memory (export "memory") 4) (global $seen (mut i32) (i32.const 0))
      (func (export "allocate") (param i32) (result i32) (i32.const 1024))
      (func (export "filter") (param $batch i32) (param i32) (result i32)
        (global.set $seen (i32.add (global.get $seen) (i32.const 1)))
        (i32.store8 offset=20 (local.get $batch)
          (i32.and (i32.eq (global.get $seen) (i32.const 1))
            (i32.eq (i32.const 111)
              (i32.load8_u
                (i32.add (local.get $batch) (i32.load offset=4 (local.get $batch)))))))
        (i32.const 0)))"""
    filter_ = wasm(text)
    for _ in range(3):
        records, sizes = block(1)
        first = records[records.index(b"flights") + 9 :][:1]
        mask = await filter_.judge(records, sizes)
        assert mask.tolist() == [first == b"o"]


HOSTILE = {
    "a loop without end": (module(judge="(loop $l (br $l)) (i32.const 0)"), "fuel"),
    "a memory bomb": (
        module("(drop (memory.grow (i32.const 60000))) (i32.const 65536)"),
        "beyond its memory",
    ),
    "deep recursion": (module("(call $a (i32.const 1))"), "call stack exhausted"),
    "a trap": (module(judge="(unreachable)"), "unreachable"),
    "no room": (module("(i32.const -5)"), "beyond its memory"),
    "a failure": (module(judge="(i32.const 7)"), "filter answered 7, not 0"),
    "a verdict that is none": (
        module(judge="(i32.store8 offset=20 (local.get 0) (i32.const 9)) (i32.const 0)"),
        "message at 0 of queue 0: verdict 9, not 0 or 1",
    ),
    "a read beyond the memory": (module(judge="(i32.load (i32.const -4))"), "out of bounds"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_modules_are_contained(wasm, block, name):
    text, word = HOSTILE[name]
    hostile = wasm(text, fuel_per_message=1_000_000)
    with pytest.raises(FilterFailed) as failed:
        await hostile.judge(*block(1))
    assert word in failed.value.cause
    assert "\n" not in failed.value.cause


async def test_a_loop_with_much_fuel_ends_with_its_time(wasm, block):
    hostile = wasm(HOSTILE["a loop without end"][0], fuel_per_message=1 << 50, batch_cpu_s=0.2)
    with pytest.raises(FilterFailed, match=r"computed for more than 0\.2 s"):
        await hostile.judge(*block(1))


REFUSED = {
    "an import": ('(module (import "env" "clock" (func)))', "imports env.clock"),
    "no memory": ("(module)", "does not export memory"),
    "no function": ('(module (memory (export "memory") 1))', "the function allocate"),
    "another function": (
        module().replace("(param i32 i32)", "(param i64)"),
        "2 parameters and 1 result",
    ),
    "a memory that is a function": ('(module (func (export "memory")))', "not export memory"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_modules_that_are_no_filters_are_refused(wasm, block, name):
    text, word = REFUSED[name]
    with pytest.raises(FilterInvalid) as refused:
        await wasm(text).judge(*block(1))
    assert word in refused.value.cause


async def test_bytes_that_are_no_module_are_refused(jailed, block):
    for code in (b"", b"nonsense", b"\0asm\1\0\0\0\xff"):
        with pytest.raises(FilterInvalid):
            await jailed(code, language=FilterLanguage.WASM).judge(*block(1))


async def test_compressed_bodies_are_given_as_they_were_however_large_they_grow(wasm, block):
    """Twelve bodies of 10 MiB do not fit into the worker's memory at once; one by one they do."""
    large = [(b"J" if number % 3 else b"K") + bytes(10 << 20) for number in range(12)]
    bodies = [zlib.compress(body) for body in (*large, b"J", b"K", b"")]
    mask = await wasm(BEGINS_WITH_J, batch_cpu_s=120.0).judge(
        *block(len(bodies), bodies=bodies, compressed=True)
    )
    assert mask.tolist() == [bool(number % 3) for number in range(12)] + [True, False, False]


async def test_a_body_that_cannot_be_read_is_no_strike(wasm, block):
    bodies = [zlib.compress(b"J"), b"J", zlib.compress(b"J")]
    filter_ = wasm(BEGINS_WITH_J)
    for _ in range(4):
        with pytest.raises(RecordCorrupted):
            await filter_.judge(*block(3, bodies=bodies, compressed=True))
    assert filter_.strike_count == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (module().replace('"memory") 1', '"memory") 60000'), "exceeds memory limits"),
        (module().replace("(func $a", "(func $s (loop $l (br $l))) (start $s) (func $a"), "fuel"),
    ],
)
async def test_what_no_batch_could_ever_start_is_no_filter(wasm, block, text, word):
    """So it is refused when it is uploaded, and not three strikes later."""
    with pytest.raises(FilterInvalid, match=word):
        await wasm(text, fuel_per_message=100_000).judge(*block(1))
