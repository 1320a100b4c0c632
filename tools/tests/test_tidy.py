"""Every rule of our own finds what it is there to find, and nothing beside it."""

from __future__ import annotations

import pytest

from tools.tidy import layout_rules, python_rules, text_rules, world_rules
from tools.tidy.__main__ import findings
from tools.tidy.exemptions import EXEMPTIONS, Exemption

CORE = "storage/src/ariane_storage/writing/append.py"


def rules_broken(rule, sources) -> list[tuple[str, int]]:
    return [(finding.path, finding.line) for finding in rule(sources)]


@pytest.mark.parametrize(("count", "broken"), [(500, False), (501, True)])
def test_long_file(repository, count, broken):
    sources = repository({"tools/a.py": "x = 1\n" * count})
    assert bool(rules_broken(python_rules.long_files, sources)) is broken


@pytest.mark.parametrize(("count", "broken"), [(69, False), (70, True)])
def test_long_function(repository, count, broken):
    text = "def act():\n" + "    act()\n" * count
    sources = repository({"tools/a.py": text, "tools/tests/test_a.py": text})
    expected = [("tools/a.py", 1)] if broken else []
    assert rules_broken(python_rules.long_functions, sources) == expected


def test_docstring_is_free(repository):
    text = 'def act():\n    """One.\n' + "    more\n" * 80 + '    """\n    act()\n'
    assert not rules_broken(python_rules.long_functions, repository({"tools/a.py": text}))


def test_logic_in_init(repository):
    clean = '"""A package."""\n\nfrom a import b\n\n__all__ = ["b"]\n__version__ = "1"\n'
    chosen = "if TYPE_CHECKING:\n    from a import c\nelse:\n    from a import d as __getattr__\n"
    lazy = clean + chosen
    sources = repository(
        {
            "a/__init__.py": clean,
            "b/__init__.py": f"{clean}LIMIT = 3\n",
            "c/__init__.py": lazy,
            "d/__init__.py": f"{lazy}    LIMIT = 3\n",
        }
    )
    broken = [("b/__init__.py", 7), ("d/__init__.py", 7)]
    assert rules_broken(python_rules.logic_in_init, sources) == broken


def test_vague_names(repository):
    text = "class StoreManager:\n    pass\n\n\nclass Store:\n    pass\n"
    sources = repository({"a/queue_utils.py": "", "a/queues.py": text})
    broken = rules_broken(python_rules.vague_names, sources)
    assert broken == [("a/queue_utils.py", 0), ("a/queues.py", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic_ns()",
        "from time import sleep as rest\nrest(1)",
        "import random\nrandom.choice([1])",
        "import numpy as np\nnp.random.default_rng()",
        "from datetime import datetime\ndatetime.now()",
        "import os\nos.fsync(3)",
        "\nopen('x')",
        "from pathlib import Path\nPath('x').read_text()",
        "import uuid\nuuid.uuid4()",
        "import subprocess\nsubprocess.run(['ls'])",
    ],
)
def test_world_call_in_a_core(repository, text):
    sources = repository({CORE: text, "integration/run.py": text, "tools/a.py": text})
    assert rules_broken(world_rules.world_calls, sources) == [(CORE, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "import random\nrandom.Random(7).choice([1])",
        "clock.time()",
        "def act(random):\n    random.choice([1])",
        "self._clock.sleep(1)",
        "import os\nos.path.join('a', 'b')",
        "'a'.replace('a', 'b')",
        "disk.open('x')",
    ],
)
def test_what_is_handed_in_may_be_called(repository, text):
    assert not rules_broken(world_rules.world_calls, repository({CORE: text}))


def test_the_named_places_may_touch_the_world(repository):
    place = "storage/src/ariane_storage/disk/os_disk.py"
    assert not rules_broken(world_rules.world_calls, repository({place: "open('x')"}))


def test_what_python_salts_in_each_process_stays_in_it(repository):
    kept = "class A:\n    def __hash__(self):\n        return hash(self.key)\n"
    lent = "keys = map(hash, texts)\nkey = hash(text)\n"
    sources = repository({CORE: kept + lent, "integration/run.py": lent})
    assert rules_broken(world_rules.salted_hashes, sources) == [(CORE, 4), (CORE, 5)]


GRPCIOS_ENDS = (
    "import grpc\nfrom grpc import aio\naio.insecure_channel('a:1')\ngrpc.secure_channel('a')\n"
    "aio.server()\n"
)
OUR_ENDS = "import ariane_wire\nariane_wire.insecure_channel('a:1')\n"


def test_what_we_ship_has_no_channels_and_servers_of_grpcio(repository):
    [end, *_] = world_rules.CALL_ENDS
    test = "services/broker/tests/test_a.py"
    sources = repository({CORE: GRPCIOS_ENDS, end: OUR_ENDS, test: GRPCIOS_ENDS})
    assert rules_broken(world_rules.channels, sources) == [(CORE, 3), (CORE, 4), (CORE, 5)]


def test_channels_and_servers_are_made_in_few_places(repository):
    [end, *_] = world_rules.CALL_ENDS
    sources = repository({CORE: OUR_ENDS, end: GRPCIOS_ENDS})
    broken = {(CORE, 2), (end, 3), (end, 4), (end, 5)}
    assert set(rules_broken(world_rules.channels, sources)) == broken


# Written in two parts, so that this file does not break what it tests.
@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("unfinished", "# TO" + "DO: later"),
        ("unfinished", "# XX" + "X"),
        ("machine-path", "see /home" + "/ann/notes"),
        ("machine-path", "C:\\Users" + "\\ann"),
        ("machine-path", "cd /wo" + "rk/main"),
        ("registry-host", "https://py" + "pi.org/simple"),
        ("registry-host", "--index-" + "url x"),
    ],
)
def test_forbidden_text(repository, rule, text):
    sources = repository({"docs/a.md": f"fine\n{text}\n", "docs/b.bin": "fine"})
    found = list(text_rules.forbidden_text(sources))
    assert [(finding.rule, finding.path, finding.line) for finding in found] == [
        (rule, "docs/a.md", 2)
    ]


@pytest.mark.parametrize(
    "text", ["SCHEDULE_TOPIC_XXXX", "/var/lib/ariane", "homework/main", "method", "a/root/b"]
)
def test_allowed_text(repository, text):
    assert not list(text_rules.forbidden_text(repository({"docs/a.md": text})))


def test_binary_files_are_left_alone(repository):
    sources = repository({"a.bin": ""})
    (sources.root / "a.bin").write_bytes(b"\xff\xfe\x00")
    assert not list(text_rules.forbidden_text(sources))


def test_wide_proto(repository):
    wide = "// " + "x" * 98
    sources = repository({"protos/a.proto": f"{wide}\n  rpc {'X' * 120}\n// fine\n"})
    assert rules_broken(text_rules.wide_protos, sources) == [("protos/a.proto", 1)]


def test_unknown_folder(repository):
    sources = repository({"tools/a.py": "", "misc/a.py": "", ".ci/run": "", "README.md": ""})
    assert rules_broken(layout_rules.unknown_folders, sources) == [("misc", 0)]


def test_unmapped_folder(repository):
    sources = repository(
        {"tools/a": "", "sdk/a": "", "docs/a": "", "ARCHITECTURE.md": "`tools/` and mydocs/ sdk"}
    )
    texts = [finding.text for finding in layout_rules.unmapped_folders(sources)]
    assert texts == ["does not name docs/", "does not name sdk/"]
    assert rules_broken(layout_rules.unmapped_folders, repository({"tools/a": ""}))


def workspace(member: str, dependencies: str = "") -> dict[str, str]:
    return {
        "pyproject.toml": f'[tool.uv.workspace]\nmembers = ["{member}"]\n',
        f"{member}/pyproject.toml": f'[project]\nname = "ariane-a"\ndependencies=[{dependencies}]',
        f"{member}/src/ariane_a/__init__.py": "",
        "tools/requirements.in": "# what for\nclick>=8  # the command line\n",
        "tools/constraints.txt": "click==8.5.1 \\\n    --hash=sha256:00\nnumpy==2.4.0 \\\n",
    }


def test_bare_member(repository):
    bare = workspace("sdk/python")
    assert len(rules_broken(layout_rules.bare_members, repository(bare))) == 2
    full = {**bare, "sdk/python/README.md": "", "sdk/python/src/ariane_a/py.typed": ""}
    assert not rules_broken(layout_rules.bare_members, repository(full))


def test_full_folder(repository):
    def modules(folder, count):
        return {f"{folder}/m{number}.py": "" for number in range(count)}

    most = layout_rules.MODULES_MAX
    fine = modules("tools", most) | {"tools/__init__.py": "", "tools/__main__.py": ""}
    free = [f"{each}/a" for each in ("tools/tests", "integration", "protos/src")]
    fine |= {name: "" for folder in free for name in modules(folder, most + 1)}
    assert not list(layout_rules.full_folders(repository(fine)))
    full = repository(modules("bench/a", most + 1))
    assert rules_broken(layout_rules.full_folders, full) == [("bench/a", 0)]


def test_hidden_package(repository):
    folder = "protos/src/ariane/broker/v1"
    sources = repository({f"{folder}/send_pb2.py": "", "protos/src/ariane/broker/__init__.py": ""})
    assert rules_broken(layout_rules.hidden_packages, sources) == [(folder, 0)]


@pytest.mark.parametrize(
    ("dependencies", "broken"),
    [
        ('"numpy>=2.1,<3"', False),
        ('"Click>=8"', False),
        ('"ariane-a"', False),
        ('"numpy>=3"', True),
        ('"grpcio"', True),
    ],
)
def test_stale_pin(repository, dependencies, broken):
    sources = repository(workspace("sdk", dependencies))
    assert bool(rules_broken(layout_rules.stale_pins, sources)) is broken


def test_exemption_waives_its_file_only_and_goes_stale(repository):
    texts = {"tools/a.py": "x = 1\n" * 601, "tools/b.py": "x = 1\n" * 601}
    sources = repository({**workspace("sdk"), **texts})
    waiver = Exemption("long-file", "tools/a.py", "a test")
    other = Exemption("long-file", "tools/c.py", "a test")
    found = [(each.rule, each.path) for each in findings(sources, [waiver, other])]
    assert ("long-file", "tools/a.py") not in found
    assert ("long-file", "tools/b.py") in found
    assert ("stale-exemption", "tools/c.py") in found


def test_exemptions_are_few_and_reasoned():
    assert len(EXEMPTIONS) <= 10
    assert all(len(exemption.reason) > 20 for exemption in EXEMPTIONS)
