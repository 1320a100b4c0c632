"""A real broker for the tests of applications: the fixtures are in ``plugin``.

Exports nothing: pytest imports this in every run, and only tests with a broker should pay for it.
For annotations: ``cluster.InProcessCluster``, ``faults.Faults``, ``forward_clock.ForwardClock``.
"""
