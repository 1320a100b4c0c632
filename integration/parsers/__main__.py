"""Fuzzes parsers of foreign bytes, led by coverage: ``make fuzz-parsers``.

    .venv/bin/python integration/parsers [--minutes 2] [--only sql --only token]

Each parser has the minutes in a process of its own. Inputs that reach something new are kept in
``.cache/fuzz-parsers``; one that breaks a parser is written to ``corpus/``, and becomes a test.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OCTETS_MAX = 2_048
INPUT_S_MAX = 10

INSTRUMENTED = [
    *("ariane_admin", "ariane_broker", "ariane_gateway", "ariane_record", "ariane_servicekit"),
    *("ariane_sql92", "ariane_storage", "ariane_wire", "jwt", "lark", "parsers", "yaml"),
]
"""Packages whose branches lead it; whole names, no beginnings of names."""

sys.path += [str(HERE), str(ROOT / "wire" / "tests" / "fuzz")]


def fuzz(name: str, minutes: float) -> None:
    """Fuzz one parser in this process, which ends with it."""
    found, corpus = ROOT / ".cache" / "fuzz-parsers" / name, HERE / "corpus" / name
    for folder in (found, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    logging.disable()
    from fuzzer_home import install  # noqa: PLC0415 - of the fuzzer of our gRPC.

    install()
    import atheris  # noqa: PLC0415 - it is not there for every machine.

    with atheris.instrument_imports(include=INSTRUMENTED):
        from parsers import PARSERS  # noqa: PLC0415 - what is imported here is instrumented.

    parser = PARSERS[name]
    for number, seed in enumerate(parser.seeds):
        (found / f"seed-{number}").write_bytes(seed)
    arguments = (
        f"-max_total_time={round(minutes * 60)}",
        f"-max_len={OCTETS_MAX}",
        f"-timeout={INPUT_S_MAX}",
        f"-artifact_prefix={corpus}/",
        "-print_final_stats=1",
        *(str(found), str(corpus)),
    )
    atheris.Setup([sys.argv[0], *arguments], parser.play)
    atheris.Fuzz()


def main() -> int:
    """Fuzz each parser; the status is not 0 if one was broken."""
    described = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    described.add_argument("--minutes", type=float, default=2.0, help="for each (default 2)")
    described.add_argument("--only", action="append", default=[], help="a parser (default all)")
    described.add_argument("--here", help=argparse.SUPPRESS)
    said = described.parse_args()
    if said.here:
        fuzz(said.here, said.minutes)
        return 0
    from fuzzer_home import install  # noqa: PLC0415 - of the fuzzer of our gRPC.
    from parsers import PARSERS  # noqa: PLC0415 - heavy

    install()
    broken = []
    for name in said.only or PARSERS:
        sys.stdout.write(f"{name}\n")
        words = (sys.executable, str(HERE), "--here", name, "--minutes", str(said.minutes))
        if subprocess.run(words, check=False).returncode:
            broken.append(name)
    sys.stdout.write(f"broken: {', '.join(broken) or 'none'}\n")
    return bool(broken)


if __name__ == "__main__":
    raise SystemExit(main())
