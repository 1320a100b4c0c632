"""``make mutants``: which wrong changes it makes, and that it sees whether tests notice them."""

from __future__ import annotations

import ast

import pytest

from tools.mutants import __main__ as mutants
from tools.mutants.mutations import mutations

CASES = [
    ("x = a < b", {"x = a <= b"}),
    ("x = a not in b", {"x = a in b"}),
    ("x = (a) + (b)", {"x = (a) - (b)"}),
    ("x = a and b and c", {"x = a or b and c"}),
    ("x = not a", {"x = a"}),
    ("if a:\n    b = c", {"if not (a):\n    b = c"}),
    ("x = 7", {"x = 8"}),
    ("é = 'é'; x = True", {"é = 'é'; x = False"}),
    ("self.save(x)", {"pass"}),
    ("log.info(x)", set()),
    ("raise Gone", {"pass"}),
    ("def f() -> Literal[3]:\n    return x", {"def f() -> Literal[3]:\n    return None"}),
    ('"""Says 3 < 4."""', set()),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_each_change_is_made_where_it_belongs(source, expected):
    assert {each.applied(source) for each in mutations(source)} == expected


@pytest.fixture(scope="module")
def of_the_store():
    return mutants.mutants_of("ariane_storage")


def test_every_mutant_of_the_core_parses_and_differs(of_the_store):
    for mutant in of_the_store[::400]:
        source = (mutant.member.folder / "src" / mutant.module).read_text()
        changed = mutant.mutation.applied(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutant.place


@pytest.fixture
def mutant(of_the_store):
    return of_the_store[0]


@pytest.mark.parametrize(
    ("verdict", "noticed"),
    [
        ("True", False),
        ("'mutant-' not in ariane_storage.__file__", True),  # The changed copy is what is tested.
    ],
)
def test_a_mutant_is_noticed_when_a_test_fails(monkeypatch, mutant, tmp_path, verdict, noticed):
    test = tmp_path / "test_it.py"
    test.write_text(f"import ariane_storage\n\ndef test_it():\n    assert {verdict}\n")
    monkeypatch.setattr(mutants, "tests_of", lambda mutant: [[test]])
    assert mutants.tried(mutant).noticed is noticed


def test_survivors_are_printed_and_told_by_the_status(monkeypatch, mutant, capsys):
    fate = mutants.Fate("recovery.py:7", "< becomes <=", noticed=False, seconds=1.0)
    monkeypatch.setattr(mutants, "tried", lambda mutant: fate)
    monkeypatch.setattr(mutants, "mutants_of", lambda name: [mutant])
    assert mutants.main(["--count", "1", "--seed", "1"]) == 1
    assert "recovery.py:7: < becomes <=" in capsys.readouterr().out
    assert mutants.main(["--only", "no such module"]) == 2
