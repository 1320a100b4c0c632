"""Functions of users that are named on the command line and run in Spark's tasks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ariane_spark.errors import OptionIllegal


def shipped_function(option: str, spec: str | None) -> Callable[..., Any] | None:
    """The function with a name; its module is sent to the tasks by value.

    The present folder is searched first. Imports of the module are not sent: they must be installed
    at the tasks, or given to Spark by ``--py-files``.

    Args:
        option: The option, for errors.
        spec: ``module:function``; or ``None``.

    Raises:
        OptionIllegal: There is no such function, or its module cannot be loaded.
    """
    if spec is None:
        return None
    module_name, colon, name = spec.partition(":")
    if not (colon and module_name and name):
        raise OptionIllegal(option, f"{spec!r} is not MODULE:FUNCTION")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, name)
    except Exception as error:  # Any error of the user's module.
        raise OptionIllegal(option, f"{spec}: {' '.join(str(error).split())}") from error
    if not callable(function):
        raise OptionIllegal(option, f"{spec} is not a function")
    from pyspark import cloudpickle  # noqa: PLC0415 - help needs no Spark.

    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    register(module)
    found: Callable[..., Any] = function
    return found
