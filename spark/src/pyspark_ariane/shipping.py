"""Brings this distribution to workers that lack it, for one session."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_ariane.default_source import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN: Final = "ariane-spark"
_OURS: Final = re.compile(r"ariane-[a-z0-9]+")
_PACKAGES: Final = {"ariane-protos": ("ariane",), OWN: ("ariane_spark", "pyspark_ariane")}
"""Import packages of distributions that are not named like them."""

_MADE: Final = (1980, 1, 1, 0, 0, 0)
"""The same content makes the same archive."""


def ship(session: SparkSession) -> None:
    """Let a session read and write topics where the Python of its workers lacks this distribution.

    What it depends on (``numpy``, ``pyarrow``, ``protobuf``, ``grpcio`` and so on) must be there,
    in a Python of the same version. Everything lasts as long as the session. Not needed where
    ``ariane-spark`` is installed.

    Args:
        session: A session of Spark, also of Spark Connect.
    """
    content = {name: text for each in _ours(OWN) for name, text in _files_of(each)}
    digest = blake2b(digest_size=8)
    for name in sorted(content):
        digest.update(name.encode() + b"\0" + content[name])
    path = Path(_folder().name, f"{OWN}-{digest.hexdigest()}.zip")
    if not path.exists():
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(content):
                archive.writestr(zipfile.ZipInfo(name, _MADE), content[name])
    session.addArtifacts(str(path), pyfile=True)
    # Spark looks for formats in the Python of its machines; of a registered one it is told.
    session.dataSource.register(DefaultSource)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where archives are until the program ends: in one process, tasks fetch them from here."""
    return tempfile.TemporaryDirectory(prefix="ariane-spark-")


def _ours(name: str) -> set[str]:
    """A distribution of ours, and those of ours that it needs."""
    found: set[str] = set()
    left = [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            needed = (_OURS.match(text) for text in distribution(each).requires or ())
            left += [match[0] for match in needed if match]
    return found


def _files_of(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a distribution, by their place in an archive."""
    own = distribution(name)
    folder = f"{name.replace('-', '_')}-{own.version}.dist-info"
    yield f"{folder}/METADATA", (own.read_text("METADATA") or "").encode()
    for package in _PACKAGES.get(name, (name.replace("-", "_"),)):
        spec = find_spec(package)
        for root in (spec and spec.submodule_search_locations) or ():
            for path in Path(root).rglob("*"):
                if path.is_file() and path.suffix != ".pyc":
                    yield f"{package}/{path.relative_to(root)}", path.read_bytes()
