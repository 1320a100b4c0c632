"""What only a language can say of its client: its own tests, by its own tool."""

from __future__ import annotations

import shutil

import pytest
from languages import build, missing

from tools import clients

TESTS = {
    # The race detector needs a C compiler.
    "go": ["go", "test", *(["-race"] if shutil.which("gcc") else []), "./..."],
    "java": ["mvn", "-q", "-B", "surefire:test"],
    "typescript": [
        *("node", "--expose-gc", "--test"),
        *(
            f"dist/test/{name}.test.js"
            for name in (
                "admin",
                "client",
                "errors",
                "opentelemetry",
                "requests",
                "security",
                "sources",
                "standstill",
            )
        ),
    ],
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", TESTS)
def test_a_client_passes_its_own_tests(language):
    if lacks := missing(language):
        pytest.skip(f"{lacks} is not on this machine")
    build(language)
    clients.run(*TESTS[language], place=clients.SDK / language)
