"""Every line of ``ariane`` that README and docs show is one that the command line takes.

They are read as the command line reads them; integration/commands runs them.
"""

import re
import shlex

import click
import pytest

from ariane_admin.cli import root
from tools.papers import Paper, shell_lines_of
from tools.workspace import ROOT, repository_files

SEPARATORS = set("|&;<>()")

REDIRECTION = re.compile(r"\d>(&\d)?")


def commands_in(line):
    """The words behind each ``ariane`` of a line of shell."""
    lexer = shlex.shlex(REDIRECTION.sub(" ", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    part = []
    for word in [*lexer, ";"]:
        if set(word) <= SEPARATORS:
            if "ariane" in part:
                yield part[part.index("ariane") + 1 :]
            part = []
        else:
            part.append(word)


def take(words):
    """Read a command line to its end without doing anything.

    Raises:
        click.UsageError: It is not taken.
    """
    command, context = root, click.Context(root, info_name="ariane")
    while isinstance(command, click.Group):
        # Options of the root stand before the command.
        with command.make_context(context.info_name, list(words), parent=context.parent) as here:
            words = [*here._protected_args, *here.args]
            if not words or here.params.get("help"):
                return
            name, command, words = command.resolve_command(here, words)
            context = click.Context(command, parent=here, info_name=name)
    with command.make_context(context.info_name, list(words), parent=context.parent):
        pass


def test_every_line_that_is_shown_is_one_that_is_taken(monkeypatch, tmp_path):
    given = tmp_path / "given"
    given.write_text("given\n")
    for kind in (click.File, click.Path):  # Whatever file a page names is there.
        monkeypatch.setattr(kind, "convert", lambda *_: given)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    pages = (Paper(ROOT, name) for name in repository_files() if name.endswith(".md"))
    shown = [(page.name, line) for page in pages for line in shell_lines_of(page, "ariane")]
    assert len(shown) > 60
    for name, line in shown:
        words = list(commands_in(line))
        assert words, (name, line)
        for each in words:
            try:
                take(each)
            except click.exceptions.Exit:
                pass
            except click.ClickException as error:
                pytest.fail(f"{name}: {line}\n{error.format_message()}")


@pytest.mark.parametrize(
    "line", ["ariane topik list", "ariane topic list --nonsense", "ariane topic show"]
)
def test_a_line_that_is_not_taken_is_found(line):
    [words] = commands_in(line)
    with pytest.raises(click.ClickException):
        take(words)


def test_the_table_of_the_dashboard_names_tests_that_there_are():
    page = (ROOT / "docs" / "admin.md").read_text()
    table = page.partition("## Compared with RocketMQ's dashboard")[2]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 25
    found = {
        f"{path.name}::{name}"
        for path in (ROOT / "services" / "admin" / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    for theirs, ours, shown_by in rows:
        named = re.findall(r"`(test_\w+\.py::test_\w+)`", shown_by)
        assert set(named) <= found, theirs
        # What there is has a test; what there is not says why.
        assert bool(named) == (ours.strip() != "-"), theirs
