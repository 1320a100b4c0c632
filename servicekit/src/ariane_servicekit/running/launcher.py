"""``python -m ariane_servicekit.running.launcher PARENT MODULE ARGUMENT...``.

A child that never outlives its parent.

Runs a module as ``python -m MODULE`` would, after asking Linux for a SIGHUP when the parent dies,
however it dies: the child then drains and stops in order. Not a SIGTERM: the kernel sends one for
each thread of a dying parent that the child is handed on to, and a second SIGTERM means at once.
Asking inside the child, not in a
``preexec_fn`` of the parent, keeps the parent's fork free of Python code, which would be unsafe
beside the threads of gRPC and the JVM.

The kernel means the parent's *thread* that started the child: it must live as long as the cluster.
Elsewhere than on Linux the child is stopped by an orderly end of its parent only.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Tie this process to its parent and become the module."""
    parent, module, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        # A parent under nohup hands down that it ignores the signal.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
        if os.getppid() != int(parent):
            # It died before the kernel knew that we want the signal.
            sys.exit(1)
    sys.argv[:] = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
