"""Where the fuzzer is, which is not there for every machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

FUZZER: Final = "atheris>=3,<4"
FUZZER_HOME: Final = Path(__file__).parents[3] / ".cache" / "atheris"


def install() -> None:
    """Put the fuzzer on the path, from a home of its own."""
    if not FUZZER_HOME.exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        only = ("--only-binary", ":all:", "--no-deps", "--target", str(FUZZER_HOME))
        subprocess.run((*pip, *only, FUZZER), check=True)
    sys.path.append(str(FUZZER_HOME))
