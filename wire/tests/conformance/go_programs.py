"""Programs of others, in Go: built once, from modules by version, into `.cache/go-programs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ariane_testkit.programs import go_programs

ROOT = Path(__file__).resolve().parents[3]
MODULES = {
    "h2spec": "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible",
    "interop-client": "google.golang.org/grpc/interop/client@v1.85.0",
    "interop-server": "google.golang.org/grpc/interop/server@v1.85.0",
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
}


def go_program(name: str) -> Path:
    """The path of a program, built if it is missing; the test is skipped where it cannot be."""
    try:
        return go_programs.go_program(MODULES[name], ROOT / ".cache" / "go-programs")
    except go_programs.GoProgramUnavailable as missing:
        pytest.skip(str(missing))
