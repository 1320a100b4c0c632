"""Rules about the text of any file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.tidy.sources import Finding, Sources

PROTO_COLUMNS_MAX: Final = 100

# Character classes keep these lines from finding themselves.
UNFINISHED: Final = re.compile(r"\b(TOD[O]|FIXM[E]|HAC[K]|XX[X])\b")
MACHINE_PATH: Final = re.compile(
    r"(?<![\w.])/(?:home/\w+|Users/\w+|root|wor[k]|far[m]|opt/wheel[s])(?=/)|\b[A-Z]:\\\\?Users\\"
)
REGISTRY_HOST: Final = re.compile(
    r"pypi\.or[g]|pythonhosted\.or[g]|npmjs\.or[g]|yarnpkg\.co[m]|golang\.org/prox[y]"
    r"|proxy\.golang\.or[g]|repo1?\.maven\.(?:apache\.)?or[g]|/artifactor[y]/|--(?:extra-)?index-ur[l]",
)

PATTERNS: Final = (
    ("unfinished", UNFINISHED, "finish it, or open an issue and say nothing here"),
    ("machine-path", MACHINE_PATH, "a path of one machine"),
    ("registry-host", REGISTRY_HOST, "which registry is the machine's own setting"),
)


def forbidden_text(sources: Sources) -> Iterator[Finding]:
    """No marks of unfinished work, no paths of one machine, no hosts of registries."""
    for name in sources.files:
        text = sources.text(name)
        if text is None:
            continue
        for rule, pattern, why in PATTERNS:
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield Finding(name, line, rule, f"{match.group()!r}: {why}")


def wide_protos(sources: Sources) -> Iterator[Finding]:
    """Comments of the contract keep to the width; the formatter owns ``rpc`` lines."""
    for name in sources.named(".proto"):
        for number, line in enumerate((sources.text(name) or "").splitlines(), start=1):
            if len(line) > PROTO_COLUMNS_MAX and not line.lstrip().startswith("rpc "):
                text = f"{len(line)} columns, at most {PROTO_COLUMNS_MAX}"
                yield Finding(name, number, "wide-proto", text)
