"""What the tests of the tools share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tools.tidy.sources import Sources


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[Mapping[str, str]], Sources]:
    """Write files by name into an empty folder and read them as the rules do."""

    def write(texts: Mapping[str, str]) -> Sources:
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Sources(tmp_path, tuple(sorted(texts)))

    return write
