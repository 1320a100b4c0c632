"""``python -m ariane_testkit.warm_template CHANNEL MODULE``: a template of ``warm_starts``."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import platform
import signal
import socket
import sys
from typing import Any, Final

from ariane_servicekit.running import launcher
from ariane_testkit.warm_starts import CLONE_CALLS, REQUEST_BYTES_MAX

_CLONE_PARENT: Final = 0x8000

_library = ctypes.PyDLL(None)


def main() -> None:
    """Import the module, and fork whenever the channel asks for it, until its other end closes."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    program = f"{sys.argv[2]}.__main__"
    importlib.import_module(program)
    del sys.modules[program]  # It is run anew, as the program.
    gc.collect()
    gc.freeze()
    gc.enable()
    while True:
        request, files, _, _ = socket.recv_fds(channel, REQUEST_BYTES_MAX, 2)
        if not request:
            return
        pid = fork_beside()
        if not pid:
            channel.close()
            become(json.loads(request), files)
            return
        for file in files:
            os.close(file)
        channel.send(b"%d" % pid)


def fork_beside() -> int:
    """Fork as ``os.fork`` does, but the child's parent is the parent of this process.

    Raises:
        OSError: The system refused.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    call = CLONE_CALLS[platform.machine()]
    pid = int(_library.syscall(call, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if not pid:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("clone failed")
    return pid


def become(request: dict[str, Any], files: list[int]) -> None:
    """Run the service as a process of its own, with these files as output and errors."""
    os.setsid()
    for file, place in zip(files, (1, 2), strict=True):
        os.dup2(file, place)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = request["argv"]
    launcher.main()


if __name__ == "__main__":
    main()
