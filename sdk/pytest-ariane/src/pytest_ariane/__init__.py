"""A real broker for the tests of applications; see the fixtures in ``plugin``."""

from pytest_ariane.cluster import InProcessCluster
from pytest_ariane.faults import Faults
from pytest_ariane.forward_clock import ForwardClock

__all__ = ["Faults", "ForwardClock", "InProcessCluster"]
