"""The jail: uploaded filters, each in a process that can compute and do nothing else.

A worker gives up, in this order, its namespaces, its further memory, and all system calls but a
few; only then does it receive the filter. What its parent believes of it is one mask a batch.
"""
