"""Pins the environment: ``make constraints``.

Resolves tools/requirements.in together with what the members ask for, and writes
tools/constraints.txt with the hashes of every file that may be installed. The names of registries
stay out of it: where packages come from is each machine's own setting.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.workspace import ROOT, members

RESOLVER: Final = Path(sys.executable).parent / "uv"
REQUIREMENTS: Final = ROOT / "tools" / "requirements.in"
CONSTRAINTS: Final = ROOT / "tools" / "constraints.txt"


def main() -> int:
    """Write constraints.txt; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.in"
        asked.write_text(REQUIREMENTS.read_text() + "\n".join(foreign_requirements()) + "\n")
        command = (
            *(str(RESOLVER), "pip", "compile", str(asked), "--output-file", str(CONSTRAINTS)),
            # The oldest Python that we run on; later ones take the same versions.
            *("--python-version", "3.11", "--generate-hashes", "--upgrade"),
            *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
        )
        # It prints the file that it writes, and what went wrong on the other stream.
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode


def foreign_requirements() -> list[str]:
    """What the members ask for, other members left out."""
    workspace = members()
    ours = {canonicalize_name(member.project["name"]) for member in workspace}
    lines = {line for member in workspace for line in member.dependencies}
    return sorted(line for line in lines if canonicalize_name(Requirement(line).name) not in ours)


if __name__ == "__main__":
    sys.exit(main())
