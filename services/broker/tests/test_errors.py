"""The public errors of the broker are one table: a reason over a text and its fields."""

import inspect
from importlib import import_module
from pkgutil import iter_modules

import pytest

from ariane_broker import errors

NAMES = [each.name for each in iter_modules(errors.__path__)]


@pytest.mark.parametrize("name", NAMES)
def test_each_public_error_is_a_reason_over_the_function_of_its_text(name):
    module = import_module(f"{errors.__name__}.{name}")
    own = {
        name: each
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if each.__module__ == module.__name__ and not name.startswith(("is_", "_of_"))
    }
    assert own
    assert [name for name, each in own.items() if not hasattr(each, "__wrapped__")] == []
