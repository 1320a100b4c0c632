"""The jail: uploaded filters, each in a process that can compute and do nothing else.

A worker gives up, in this order, its namespaces, further memory, and all system calls but a few;
only then it receives the filter. The only result that its parent accepts is one mask for each
batch.
"""
