"""Typed programs of users are taken as they are typed; mypy judges them in ``make check``."""

from tools.check import steps
from tools.typed_examples import consumers, inboxes


def test_what_pages_show_can_be_built():
    assert len(consumers()) == 3
    assert len(inboxes()) == 2


def test_mypy_judges_the_module_of_the_examples():
    [types] = [step for step in steps() if step.name == "types"]
    assert ("-p", "tools") in zip(types.command, types.command[1:], strict=False)
