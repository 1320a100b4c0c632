"""Fuzzes both ends, led by coverage: ``make fuzz``.

    .venv/bin/python wire/tests/fuzz [--minutes 60] [--end server]

Inputs that reach something new are kept in ``.cache/fuzz`` and are where the next run begins,
beside the committed corpus; one that breaks an end is written to ``corpus/``, so that it becomes a
test.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path += [str(HERE), str(HERE.parent / "peers"), str(HERE.parent / "hostile")]

OCTETS_MAX = 4_096
INPUT_S_MAX = 20
"""An input that takes longer hangs."""


def main() -> None:
    """Fuzz for a while; the status is not 0 if an end was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--end", choices=("server", "client"), help="only this one (default both)")
    said = parser.parse_args()
    minutes = said.minutes
    found = ROOT / ".cache" / "fuzz"
    found.mkdir(parents=True, exist_ok=True)
    logging.getLogger("ariane_wire").propagate = False
    arguments = (
        f"-max_total_time={round(minutes * 60)}",
        f"-max_len={OCTETS_MAX}",
        f"-timeout={INPUT_S_MAX}",
        f"-artifact_prefix={HERE / 'corpus'}/",
        "-print_final_stats=1",
        str(found),
        str(HERE / "corpus"),
    )
    from fuzzer_home import install  # noqa: PLC0415 - after the path.

    install()
    # What is imported from here on is instrumented: before, there would be nothing to be led by.
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(include=["ariane_wire", "hpack"]):
        from fuzzed_ends import play  # noqa: PLC0415

    def play_end(data: bytes) -> None:
        play(bytes([data[0] & 0xFE | (said.end == "client")]) + data[1:] if data else data)

    atheris.Setup([sys.argv[0], *arguments], play_end if said.end else play)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
