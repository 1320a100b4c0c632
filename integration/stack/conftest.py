"""Where the stack is told from."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
# The flights are the demo's, and secrets are made in compose/.
sys.path += [str(HERE), str(HERE.parent / "demo"), str(HERE.parents[1] / "compose")]
