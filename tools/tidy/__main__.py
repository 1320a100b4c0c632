"""Our own rules about our own code: ``python -m tools.tidy``.

Prints one line for each breach; the exit status is 1 when there is one. A rule that does not hold
somewhere is waived in ``exemptions.py``, with the reason; a waiver that nothing needs any more is a
breach too.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tools.tidy import layout_rules, python_rules, text_rules, world_rules
from tools.tidy.exemptions import EXEMPTIONS, Exemption
from tools.tidy.sources import Finding, Sources
from tools.workspace import ROOT

Rule = Callable[[Sources], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    python_rules.long_files,
    python_rules.long_functions,
    python_rules.logic_in_init,
    python_rules.vague_names,
    world_rules.world_calls,
    world_rules.salted_hashes,
    world_rules.channels,
    text_rules.forbidden_text,
    text_rules.wide_protos,
    layout_rules.unknown_folders,
    layout_rules.unmapped_folders,
    layout_rules.bare_members,
    layout_rules.full_folders,
    layout_rules.hidden_packages,
    layout_rules.stale_pins,
)


def findings(sources: Sources, exemptions: Iterable[Exemption] = EXEMPTIONS) -> list[Finding]:
    """Everything that breaks a rule and is not waived, sorted."""
    found = {finding for rule in RULES for finding in rule(sources)}
    for exemption in exemptions:
        waived = {
            finding
            for finding in found
            if (finding.rule, finding.path) == (exemption.rule, exemption.path)
        }
        found -= waived
        if not waived:
            text = f"nothing here breaks {exemption.rule} any more"
            found.add(Finding(exemption.path, 0, "stale-exemption", text))
    return sorted(found)


def main() -> int:
    """Judge the work tree; return the exit status."""
    gc.disable()  # Syntax trees are kept to the end: there is no garbage among them.
    found = findings(Sources.of(ROOT))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
