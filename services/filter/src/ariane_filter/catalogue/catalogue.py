"""The uploaded filters on the disk. The folder is shared by all FilterServers of a broker.

::

    late@3f2a...(64 digits).py            a module, as it was uploaded
    wide@91c0...(64 digits).wasm          another
    late@3f2a...(64 digits).quarantined   why that version does not run: UTF-8 text
    .late@3f2a....17-9be1.tmp             being written; ignored by readers

A file's name contains the SHA-256 of its content, so that servers need no agreement: two servers
with the same upload write the same file, and a server that was away reads the files of the others.
Files are written whole, flushed, and renamed; content is compared with its name when it is loaded.
Nothing is kept in memory: if one server quarantines, releases or deletes a version, the others see
that at their next look. Calls that write wait for the disk; calls that read take some microseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.catalogue.filter_version import FilterVersion, language_of
from ariane_filter.catalogue.folder import Folder
from ariane_filter.jail.limits import FilterLanguage, FilterModule
from ariane_servicekit import ServiceError, StartRefused, field_invalid

_SUFFIXES: Final = {FilterLanguage.PYTHON: ".py", FilterLanguage.WASM: ".wasm"}
_LANGUAGES: Final = {suffix: language for language, suffix in _SUFFIXES.items()}
_QUARANTINED: Final = ".quarantined"
CAUSE_BYTES_MAX: Final = 1024
SHA256_DIGITS: Final = 64


@dataclass(frozen=True, slots=True)
class KeptFilter:
    """One version in the catalogue."""

    version: FilterVersion
    """Its name."""
    language: FilterLanguage
    """Its language."""
    size_bytes: int
    """Size of the module."""
    create_time_ms: int
    """When it was uploaded, since 1970 UTC."""
    quarantine_cause: str
    """Why it does not run; empty while it does."""


class Catalogue:
    """A folder of modules."""

    def __init__(self, folder: Folder, *, filters_max: int) -> None:
        """Use a folder; see ``open``."""
        self._folder = folder
        self._filters_max = filters_max

    def open(self) -> None:
        """Make the folder ready.

        Raises:
            StartRefused: The folder cannot be written.
        """
        try:
            self._folder.prepare()
        except OSError as error:
            raise StartRefused(f"cannot use {self._folder}: {error.strerror}") from error

    def all(self) -> list[KeptFilter]:
        """Every version, by name and version."""
        return sorted(self._kept(), key=lambda kept: kept.version)

    def find(self, name: str, digits: str) -> KeptFilter:
        """The version whose digits begin with ``digits``.

        Raises:
            ServiceError: FILTER_NOT_FOUND; FIELD_INVALID if several versions do.
        """
        kept = list(self._kept(f"{name}@{digits}"))
        if not kept:
            raise ServiceError(
                ErrorReason.ERROR_REASON_FILTER_NOT_FOUND,
                f"no filter {name}@{digits} is kept here",
                {"filter": f"{name}@{digits}"},
            )
        if len(kept) > 1:
            raise field_invalid("version", f"names {len(kept)} versions; say more digits", digits)
        return kept[0]

    def has(self, version: FilterVersion) -> bool:
        """Whether the catalogue has a version."""
        names = (_file_of(version, suffix) for suffix in _LANGUAGES)
        return any(self._folder.status(name) is not None for name in names)

    def load(self, version: FilterVersion) -> FilterModule:
        """Load a module, and compare it with its version. Blocks.

        Raises:
            ServiceError: FILTER_NOT_FOUND, or FILTER_MODULE_INVALID when the file is damaged.
        """
        language = self.find(version.name, version.sha256).language
        name = _file_of(version, _SUFFIXES[language])
        code = self._folder.read(name) or b""
        if hashlib.sha256(code).hexdigest() != version.sha256:
            cause = f"its file {name} is damaged; upload it again"
            raise ServiceError(
                ErrorReason.ERROR_REASON_FILTER_MODULE_INVALID,
                f"filter {version}: {cause}",
                {"filter": str(version), "cause": cause},
            )
        return FilterModule(language, code)

    def keep(self, version: FilterVersion, code: bytes) -> bool:
        """Store a module, durably; replaces a damaged file. Blocks.

        Returns:
            Whether it was there already.

        Raises:
            ServiceError: STORE_FULL.
            OSError: The disk refuses.
        """
        name = _file_of(version, _SUFFIXES[language_of(code)])
        found = self._folder.read(name)
        if found == code:
            return True
        if found is None and len(list(self._kept())) >= self._filters_max:
            raise ServiceError(
                ErrorReason.ERROR_REASON_STORE_FULL,
                f"the catalogue holds {self._filters_max} versions, as many as it may (setting "
                "filters_max); delete some first",
                {"filters_max": self._filters_max},
            )
        self._folder.write(name, code)
        return False

    def delete(self, version: FilterVersion) -> None:
        """Delete a version, with its quarantine mark. Blocks."""
        self._folder.remove(*(_file_of(version, each) for each in (*_LANGUAGES, _QUARANTINED)))

    def quarantine(self, version: FilterVersion, cause: str) -> None:
        """Mark a version as quarantined, durably. Blocks."""
        text = cause.encode()[:CAUSE_BYTES_MAX] or b"an operator stopped it"
        self._folder.write(_file_of(version, _QUARANTINED), text)

    def release(self, version: FilterVersion) -> None:
        """Remove the quarantine mark of a version. Blocks."""
        self._folder.remove(_file_of(version, _QUARANTINED))

    def quarantine_cause(self, version: FilterVersion) -> str:
        """Why a version is quarantined; empty if it is not."""
        text = self._folder.read(_file_of(version, _QUARANTINED))
        return "" if text is None else text.decode("utf-8", "replace")

    def _kept(self, beginning: str = "") -> Iterator[KeptFilter]:
        """Versions whose names begin with ``beginning``; other files are passed over."""
        for file in self._folder.names():
            stem, dot, ending = file.rpartition(".")
            name, _, sha256 = stem.partition("@")
            language = _LANGUAGES.get(dot + ending)
            if not file.startswith(beginning) or language is None or len(sha256) != SHA256_DIGITS:
                continue
            status = self._folder.status(file)
            if status is None:
                continue  # The file was deleted just now.
            version = FilterVersion(name, sha256)
            cause = self.quarantine_cause(version)
            yield KeptFilter(version, language, status.size_bytes, status.time_ms, cause)


def _file_of(version: FilterVersion, suffix: str) -> str:
    return f"{version.name}@{version.sha256}{suffix}"
