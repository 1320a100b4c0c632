"""The contract's workshop: generate, format, lint and compare ``protos/``.

    python -m tools.protos generate     # stubs under protos/src and the baseline
    python -m tools.protos stale        # fail where the stubs differ from what the protos say
    python -m tools.protos lint         # the style rules of protos/buf.yaml
    python -m tools.protos format       # fail where `buf format` would write something else
    python -m tools.protos breaking     # fail where the contract breaks its baseline

``protos/baseline.binpb`` is the contract as it was committed last, as a descriptor set. `generate`
moves it forward for additions, so that they are protected from then on, and refuses to move it over
a break. A break that is wanted goes through ``generate --accept-breaking`` in a commit that says
what breaks and for whom.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import google.rpc.status_pb2

ROOT: Final = Path(__file__).resolve().parent.parent
PROTOS: Final = ROOT / "protos"
GENERATED: Final = PROTOS / "src"
CONFIG: Final = PROTOS / "buf.yaml"
BASELINE: Final = PROTOS / "baseline.binpb"
OWN: Final = "ariane"
FOREIGN: Final = "apache"
"""The protocol of RocketMQ's clients, word for word: neither linted nor formatted."""

# google/rpc/*.proto, beside the modules that were made from them.
GOOGLE_PROTOS: Final = Path(google.rpc.status_pb2.__file__).parents[2]


class ToolFailed(Exception):
    """A compiler or linter said no; its words are the message."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.protos", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    generate = verbs.add_parser("generate", help="write stubs and baseline")
    generate.add_argument("--accept-breaking", action="store_true", help="break the baseline")
    for verb in ("stale", "lint", "breaking"):
        verbs.add_parser(verb)
    verbs.add_parser("format").add_argument("--write", action="store_true", help="format in place")
    arguments = parser.parse_args(argv)
    try:
        match arguments.verb:
            case "generate":
                run_generate(accept_breaking=arguments.accept_breaking)
            case "stale":
                run_stale()
            case "lint":
                run_lint()
            case "format":
                run_format(write=arguments.write)
            case "breaking":
                run_breaking()
    except ToolFailed as failure:
        print(failure)
        return 1
    return 0


def run_generate(*, accept_breaking: bool = False) -> None:
    """Write the stubs that differ, drop those of protos that are gone, move the baseline.

    Raises:
        ToolFailed: the protos do not compile, or break the baseline without leave.
    """
    if BASELINE.exists() and not accept_breaking:
        run_breaking()
    with generated_tree() as fresh:
        changed = synchronise(fresh, GENERATED)
    with image(source_comments=False) as current:
        if not BASELINE.exists() or not filecmp.cmp(current, BASELINE, shallow=False):
            shutil.copyfile(current, BASELINE)
            changed.append(BASELINE)
    for path in changed:
        print(path.relative_to(ROOT))
    print(f"files changed: {len(changed)}")


def run_stale() -> None:
    """Compare committed stubs and baseline with what the protos say now.

    Raises:
        ToolFailed: they differ.
    """
    with generated_tree() as fresh:
        stale = differences(fresh, GENERATED)
    with image(source_comments=False) as current:
        if not BASELINE.exists() or not filecmp.cmp(current, BASELINE, shallow=False):
            stale.append(BASELINE)
    if stale:
        names = "\n".join(f"  {path.relative_to(ROOT)}" for path in stale)
        raise ToolFailed(f"Not what the protos say now; run `make protos`:\n{names}")


def run_lint() -> None:
    """Hold the protos against the rules of ``buf.yaml``.

    Raises:
        ToolFailed: with one line for each breach.
    """
    run("buf", "lint", str(PROTOS), "--config", str(CONFIG))


def run_format(*, write: bool = False) -> None:
    """Compare the protos with what the formatter would write, or write it.

    Raises:
        ToolFailed: with the difference.
    """
    how = ("-w",) if write else ("-d", "--exit-code")
    foreign = ("--exclude-path", str(PROTOS / FOREIGN))
    run("buf", "format", str(PROTOS), "--config", str(CONFIG), *foreign, *how)


def run_breaking() -> None:
    """Compare the contract with its baseline: old bytes and old JSON must still be understood.

    Raises:
        ToolFailed: with one line for each break.
    """
    with image(source_comments=True) as current:
        against = ("--against", str(BASELINE), "--against-config", str(CONFIG))
        run("buf", "breaking", str(current), "--config", str(CONFIG), *against)


@contextmanager
def image(*, source_comments: bool) -> Iterator[Path]:
    """Compile all protos into one descriptor set, a file that lives as long as the context.

    Comments shift with every edit, so the linter wants them and the baseline does not.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.binpb"
        comments = ("--include_source_info",) if source_comments else ()
        protoc("--include_imports", *comments, f"--descriptor_set_out={path}", *proto_names())
        yield path


@contextmanager
def generated_tree() -> Iterator[Path]:
    """Generate everything into a folder that lives as long as the context."""
    names = proto_names()
    services = [name for name in names if has_service(name)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        protoc(f"--python_out={out}", f"--mypy_out={out}", *names)
        # Files without a service would come out as empty stubs.
        protoc(f"--grpc_python_out={out}", f"--mypy_grpc_out={out}", *services)
        # Without these import-linter does not see the packages, and a forbidden import passes.
        for root in filter(Path.exists, (out / OWN, out / FOREIGN)):
            for package in [root, *root.glob("**/")]:
                (package / "__init__.py").touch()
            (root / "py.typed").touch()
        yield out


def proto_names(roots: Iterable[str] = (OWN, FOREIGN)) -> list[str]:
    """The protos below some folders by the path that others import them by, sorted."""
    found = (path for root in roots for path in PROTOS.glob(f"{root}/**/*.proto"))
    return sorted(str(path.relative_to(PROTOS)) for path in found)


def has_service(name: str) -> bool:
    """Whether a proto defines a service."""
    return any(line.startswith("service ") for line in (PROTOS / name).read_text().splitlines())


def protoc(*arguments: str) -> None:
    """Run the pinned compiler in ``protos/``."""
    includes = ("-I.", f"-I{GOOGLE_PROTOS}")
    run(sys.executable, "-m", "grpc_tools.protoc", *includes, *arguments, cwd=PROTOS)


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a tool of the environment that this Python belongs to.

    Raises:
        ToolFailed: with what the tool printed.
    """
    tools = Path(sys.executable).parent
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ToolFailed((done.stdout + done.stderr).strip() or f"{command[0]} failed")


def tree(folder: Path) -> set[Path]:
    """The files below a folder, relative, byte code left out."""
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def differences(fresh: Path, committed: Path) -> list[Path]:
    """The files that differ between two trees, as paths in the second one, sorted."""
    ours, theirs = tree(fresh), tree(committed)
    _, unequal, odd = filecmp.cmpfiles(
        fresh, committed, [str(path) for path in ours & theirs], shallow=False
    )
    return sorted(committed / name for name in {*map(str, ours ^ theirs), *unequal, *odd})


def synchronise(fresh: Path, committed: Path) -> list[Path]:
    """Make the second tree equal to the first, touching only what differs; return what did."""
    stale = differences(fresh, committed)
    for path in stale:
        source = fresh / path.relative_to(committed)
        if not source.exists():
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        # Replaced whole: a test that runs meanwhile imports the old file or the new one.
        partial = path.with_name(path.name + ".part")
        shutil.copyfile(source, partial)
        partial.replace(path)
    return stale


if __name__ == "__main__":
    sys.exit(main())
