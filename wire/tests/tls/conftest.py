"""An authority for each test, and this folder on the path for the module beside the tests."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from authority import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)
