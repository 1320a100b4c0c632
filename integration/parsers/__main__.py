"""Fuzzes parsers of foreign bytes, led by coverage: ``make fuzz-parsers``.

    .venv/bin/python integration/parsers [--minutes 2] [--only condition --only token]

Each parser has the minutes, of processor time, in a process of its own. Inputs that reach something
new are kept in ``.cache/fuzz-parsers``; one that breaks a parser is written to ``corpus/``, and
becomes a test. What each parser has had in all is kept in ``fuzzed.txt``: whoever fuzzes commits
it, and without ``--only`` those come first that have had least.
"""

from __future__ import annotations

import argparse
import logging
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OCTETS_MAX = 2_048
INPUT_S_MAX = 10

INSTRUMENTED = [
    *("ariane_admin", "ariane_broker", "ariane_gateway", "ariane_record", "ariane_servicekit"),
    *("ariane_sql92", "ariane_storage", "ariane_wire", "jwt", "lark", "parsers", "yaml"),
]
"""Packages whose branches lead it; whole names, no beginnings of names."""

FUZZED = HERE / "fuzzed.txt"
HEADER = (
    "# parser, minutes of processor time, inputs, findings, all in all; commit of the last run\n"
)
REST_MINUTES = 0.1
"""Less than that is not worth the start of a process."""


class Fuzzed(NamedTuple):
    """What one parser has had in all."""

    minutes: float = 0.0
    """Of processor time."""
    inputs: int = 0
    findings: int = 0
    commit: str = "-"
    """When it was fuzzed last."""


def fuzzed() -> dict[str, Fuzzed]:
    """What each parser has had."""
    lines = FUZZED.read_text().splitlines() if FUZZED.exists() else []
    rows = [line.split() for line in lines if line[:1] not in ("", "#")]
    return {
        name: Fuzzed(float(minutes), int(inputs), int(findings), commit)
        for name, minutes, inputs, findings, commit in rows
    }


def note(name: str, minutes: float, inputs: int, findings: int) -> None:
    """Note what a parser has had more."""
    # Read anew: several may run at a time.
    known = fuzzed()
    before = known.get(name, Fuzzed())
    git = ("git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD")
    commit = subprocess.check_output(git, text=True).strip()
    known[name] = Fuzzed(
        before.minutes + minutes, before.inputs + inputs, before.findings + findings, commit
    )
    rows = (f"{key} {each[0]:.1f} {' '.join(map(str, each[1:]))}\n" for key, each in known.items())
    FUZZED.write_text(HEADER + "".join(sorted(rows)))


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


def run(name: str, minutes: float) -> bool:
    """Fuzz one parser in a process of its own; returns whether nothing broke it."""
    corpus = HERE / "corpus" / name
    left = minutes
    while left >= REST_MINUTES:
        known = set(corpus.iterdir()) if corpus.exists() else set()
        begin_s = _children_s()
        words = (sys.executable, str(HERE), "--here", name, "--minutes", str(left))
        is_broken_off = False
        with tempfile.TemporaryFile("w+") as said:
            with subprocess.Popen(words, stderr=said) as process:
                try:
                    status = process.wait()
                except KeyboardInterrupt:
                    # What it has had counts, and is told once it is waited for.
                    process.kill()
                    process.wait()
                    status, is_broken_off = 0, True
            said.seek(0)
            text = said.read()
        used = (_children_s() - begin_s) / 60
        # It counts them in each line that it writes, and at the end if it comes to one.
        counts = re.findall(r"^#(\d+)|stat::number_of_executed_units: *(\d+)", text, re.MULTILINE)
        inputs = max((int(line or end) for line, end in counts), default=0)
        findings = len(set(corpus.iterdir()) - known)
        sys.stdout.write(f"{name}: {used:.1f} minutes, {inputs} inputs, {findings} findings\n")
        sys.stdout.flush()
        note(name, used, inputs, findings)
        if is_broken_off:
            raise SystemExit(130)
        if status:
            sys.stdout.write(text[-4000:])
            return False
        left -= max(used, REST_MINUTES)
    return True


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Fuzz each parser; the status is not 0 if one was broken."""
    described = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    described.add_argument(
        "--minutes", type=float, default=2.0, help="of processor time for each (default 2)"
    )
    described.add_argument("--only", action="append", default=[], help="a parser (default all)")
    described.add_argument("--here", help=argparse.SUPPRESS)
    said = described.parse_args()
    if said.here:
        fuzz(said.here, said.minutes)
        return 0
    # Who is started in the background ignores interrupts, and would not note what was had.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    from fuzzer_home import install  # noqa: PLC0415 - of the fuzzer of our gRPC.
    from parsers import PARSERS  # noqa: PLC0415 - heavy

    install()
    had = fuzzed()
    names = said.only or sorted(PARSERS, key=lambda each: had.get(each, Fuzzed()).minutes)
    broken = [name for name in names if not run(name, said.minutes)]
    sys.stdout.write(f"broken: {', '.join(broken) or 'none'}\n")
    return bool(broken)


if __name__ == "__main__":
    raise SystemExit(main())
