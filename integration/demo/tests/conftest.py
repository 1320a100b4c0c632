"""Puts the demo's package on the path, as running its folder does; reads the flights once."""

import gc
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))


@pytest.fixture(scope="session")
def year():
    """All flights of 2013."""
    from flight_demo.flights import package_folder, read_flights  # noqa: PLC0415 - see above

    gc.disable()  # It would look through all of them again and again.
    try:
        return list(read_flights(package_folder()))
    finally:
        gc.enable()
