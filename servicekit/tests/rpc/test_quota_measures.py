"""Quotas in metrics."""

from ariane.common.v1.quota_pb2 import Quota
from ariane_servicekit.rpc.quota_measures import measure_quotas
from ariane_servicekit.security.limits.meter import CALLS, USER
from ariane_servicekit.security.limits.quotas import Quotas


class Told:
    """Stands for the instruments of a process."""

    def __init__(self):
        self.counters = {}

    def counter(self, name, unit, description, read):
        self.counters[name] = read

    def values(self):
        return {name: list(read()) for name, read in self.counters.items()}


def test_quota_metrics_count_uses_refusals_and_waits():
    quotas, told = Quotas(lambda: 100.0), Told()
    measure_quotas(told, quotas)
    assert not any(told.values().values())
    quotas.change([Quota(figure=CALLS, subject=USER, name="anna", limit=10)])
    quotas.user("anna").charge(CALLS, 25, 100.0)
    quotas.uses.note(CALLS, USER, "anna", 10)
    quotas.uses.note(CALLS, USER, "anna", 10, waited_s=1.5)
    anna = {"figure": "calls", "subject": "user", "name": "anna"}
    assert told.values() == {
        "ariane.quota.used": [(25, anna)],
        "ariane.quota.refused": [(1, anna)],
        "ariane.quota.waited": [(1.5, anna)],
    }
