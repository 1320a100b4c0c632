"""A real broker for the tests of applications: the fixtures are in ``plugin``.

Exports nothing: pytest imports this in every run, and only who asks for a broker is to pay for it.
For annotations: ``cluster.InProcessCluster``, ``faults.Faults``, ``forward_clock.ForwardClock``.
"""
