"""Filters that run beside the brokers: uploaded as a user uploads them, by the command line."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import wasmtime

from ariane_sdk import ClusterClient, Uploaded
from flight_demo.errors import UploadFailed

_FILTERS: Final = Path(__file__).parent / "filters"
_SOURCES: Final = {
    "uploaded Python": _FILTERS / "late.py",
    "uploaded WebAssembly": _FILTERS / "late.wat",
}
_NO_JAIL: Final = b"[FEATURE_NOT_AVAILABLE]"
_REGISTERED_S_MAX: Final = 60.0
_LOOK_S: Final = 0.1


async def upload_filters(name_servers: str, folder: Path) -> Mapping[str, Uploaded]:
    """Upload the filters to all FilterServers of a cluster, once each broker has one.

    Beside a replica that has just taken over, a FilterServer registers within seconds.

    Args:
        name_servers: Of the cluster.
        folder: Where the modules are put.

    Returns:
        What consumers name, by the way of filtering; nothing where the kernel has no jail.

    Raises:
        UploadFailed: A FilterServer refused, or a broker has none.
    """
    await _wait_for_filter_servers(name_servers)
    modules = {way: _module(source, folder) for way, source in _SOURCES.items()}
    answers = await asyncio.gather(*(_upload(name_servers, each) for each in modules.values()))
    return {way: each for way, each in zip(modules, answers, strict=True) if each is not None}


async def _wait_for_filter_servers(name_servers: str) -> None:
    async with ClusterClient(name_servers) as client:
        try:
            async with asyncio.timeout(_REGISTERED_S_MAX):
                brokers = await client.list_brokers()
                while not all(broker.filter_servers for broker in brokers):
                    await asyncio.sleep(_LOOK_S)
                    brokers = await client.list_brokers()
        except TimeoutError as error:
            cause = f"a broker had no FilterServer for {_REGISTERED_S_MAX:g} s"
            raise UploadFailed(f"no filter was uploaded: {cause}") from error


def answer_of(status: int, said: bytes, complaint: bytes) -> Uploaded | None:
    """What an upload says: the filter's name, or nothing where the kernel has no jail.

    Args:
        status: The command's exit status.
        said: Its answer, as JSON.
        complaint: What it says of an error.

    Raises:
        UploadFailed: A FilterServer refused.
    """
    if status == 0:
        return Uploaded(json.loads(said)["filter"])
    if _NO_JAIL in complaint:
        return None
    raise UploadFailed(f"a filter was not uploaded: {complaint.decode().strip()}")


def _module(source: Path, folder: Path) -> Path:
    """The file to upload: Python as it is, and the text of a WebAssembly module translated."""
    if source.suffix == ".py":
        return Path(shutil.copy(source, folder))
    module = folder / f"{source.stem}.wasm"
    module.write_bytes(wasmtime.wat2wasm(source.read_text(encoding="utf-8")))
    return module


async def _upload(name_servers: str, module: Path) -> Uploaded | None:
    name = f"late-{module.suffix[1:]}"
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ariane_admin", "filter", "upload", name, str(module)),
        *("--name-servers", name_servers, "--output", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        said, complaint = await command.communicate()
    except asyncio.CancelledError:
        command.kill()
        await command.wait()
        raise
    return answer_of(await command.wait(), said, complaint)
