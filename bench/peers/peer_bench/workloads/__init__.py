"""What everybody is asked to do, a file each."""

from peer_bench.workloads.every import WORKLOADS
from peer_bench.workloads.workload import Workload

__all__ = ["WORKLOADS", "Workload"]
