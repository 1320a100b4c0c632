"""The names in a folder of a disk that can lose them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ariane_storage.testing.file_images import Inode


@dataclass(frozen=True, slots=True)
class NameChange:
    """One change of the names in a folder, all or nothing: inodes by name, None for removed."""

    names: tuple[tuple[str, Inode | None], ...]

    def copy(self, copies: dict[int, Inode]) -> NameChange:
        """The same change in a copy of the disk, whose inodes are given by the old ones' ids."""
        return NameChange(
            tuple(
                (name, None if inode is None else copies[id(inode)]) for name, inode in self.names
            )
        )

    def apply_to(self, names: dict[str, Inode]) -> None:
        """Make the change."""
        for name, inode in self.names:
            if inode is None:
                names.pop(name, None)
            else:
                names[name] = inode


@dataclass(slots=True)
class FolderImage:
    """Names in one folder: now, on the medium, and the changes between."""

    cached: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def change(self, *names: tuple[str, Inode | None]) -> None:
        """Change names at once, durable with the next sync at the latest."""
        change = NameChange(names)
        change.apply_to(self.cached)
        self.pending.append(change)

    def copy(self, copies: dict[int, Inode]) -> FolderImage:
        """The same folder in a copy of the disk."""
        return FolderImage(
            {name: copies[id(inode)] for name, inode in self.cached.items()},
            {name: copies[id(inode)] for name, inode in self.durable.items()},
            [change.copy(copies) for change in self.pending],
        )

    def inodes(self) -> Iterator[Inode]:
        """Every file that has or had a name here."""
        yield from self.cached.values()
        yield from self.durable.values()
        for change in self.pending:
            yield from (inode for _, inode in change.names if inode is not None)

    def sync(self) -> None:
        """Make all names durable."""
        self.durable = dict(self.cached)
        self.pending.clear()
