"""Generates, builds and packs the clients in other languages: ``make clients``.

    python -m tools.clients                    # all whose toolchain is on this machine
    python -m tools.clients go typescript      # some of them

Stubs are not committed: what is published is built from the contract of the same commit, so that no
stub can be older than it. Compilers' plugins come by name and version from each language's own
package manager. A language whose toolchain is missing is told and left out, unless it was named.

What is published lies in dist/ then, as each language's registries take it: a folder for Go's
``GOPROXY``, a Maven repository, and a tarball for npm. A client that was built from the very same
files is not built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools import dist, protos
from tools.workspace import ROOT, members, repository_files

SDK: Final = ROOT / "sdk"
GO: Final = SDK / "go"
JAVA: Final = SDK / "java"
TYPESCRIPT: Final = SDK / "typescript"
DIST: Final = dist.DIST / "clients"
GO_MODULE: Final = "ariane.mq/go"
GO_PLUGINS: Final = ROOT / ".cache" / "go-plugins"
BUILT: Final = ROOT / ".cache" / "clients"


class ClientFailed(Exception):
    """A toolchain said no; its words are the message."""


def main(names: Sequence[str]) -> int:
    """Build the named clients, or all that this machine can; return the exit status."""
    unknown = set(names) - set(BUILDERS)
    if unknown:
        print(f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(BUILDERS)}")
        return 2
    for name in names or BUILDERS:
        missing = missing_tools(name)
        if missing:
            print(f"{name}: left out, because {' and '.join(missing)} is not on this machine")
            if names:
                return 1
            continue
        try:
            fresh = build(name)
        except ClientFailed as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            return 1
        print(f"{name}: {'built' if fresh else 'up to date'} in {(SDK / name).relative_to(ROOT)}")
    return 0


def build(name: str) -> bool:
    """Build a client, unless these very files were built last; return whether.

    One process at a time does, and others wait for it.

    Raises:
        ClientFailed: Something could not be had, or does not compile.
    """
    kept = BUILT / name
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a+") as last:
        fcntl.flock(last, fcntl.LOCK_EX)
        last.seek(0)
        wanted = digest(name)
        if last.read() == wanted and all(path.exists() for path in MADE[name]):
            return False
        last.truncate(0)
        BUILDERS[name]()
        last.write(wanted)
        return True


def digest(name: str) -> str:
    """Tells apart what a client is built from."""
    whole = hashlib.sha256()
    places = (f"sdk/{name}/", "protos/ariane/", "tools/clients.py", "tools/constraints.txt")
    for path in repository_files():
        if path.startswith(places) or path in dist.SHARED:
            content = (ROOT / path).read_bytes()
            whole.update(f"{path} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def missing_tools(name: str) -> list[str]:
    """The programs that a language needs and this machine has not."""
    return [tool for tool in TOOLCHAINS[name] if shutil.which(tool) is None]


def build_go() -> None:
    """Generate the stubs into the module and compile all of it.

    Raises:
        ClientFailed: A plugin could not be had, or something does not compile.
    """
    for plugin in ("protoc-gen-go", "protoc-gen-go-grpc"):
        target = GO_PLUGINS / plugin
        package = next(tool for tool in GO_TOOLS if tool.endswith(f"/{plugin}"))
        # Their versions are in go.mod.
        run("go", "build", "-o", str(target), package, place=GO)
    out = GO / "arianepb"
    shutil.rmtree(out, ignore_errors=True)
    module = f"module={GO_MODULE}"
    protoc(
        *(f"--plugin={plugin}" for plugin in GO_PLUGINS.iterdir()),
        f"--go_out={GO}",
        f"--go_opt={module}",
        f"--go-grpc_out={GO}",
        f"--go-grpc_opt={module}",
    )
    run("go", "vet", "./...", place=GO)
    run("go", "build", "-o", str(GO / "bin") + "/", "./...", place=GO)
    pack_go(DIST / "go")


def pack_go(proxy: Path) -> None:
    """Lay the module into a folder that Go takes modules from, its stubs and licence included."""
    version = f"v{version_of_all()}"
    folder = proxy / GO_MODULE / "@v"
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        str(path.relative_to(GO)): path
        for path in (GO / "go.mod", GO / "README.md", *GO.glob("ariane*/**/*.go"))
    } | {name: ROOT / name for name in dist.SHARED}
    with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, f"{GO_MODULE}@{version}/{name}")
    shutil.copyfile(GO / "go.mod", folder / f"{version}.mod")
    (folder / f"{version}.info").write_text(json.dumps({"Version": version}))
    (folder / "list").write_text(f"{version}\n")


def build_java() -> None:
    """Have Maven generate, compile and package.

    Raises:
        ClientFailed: Something could not be had, or does not compile.
    """
    target = f"-DaltDeploymentRepository=dist::file://{DIST / 'java'}"
    skipped = ("-DskipTests", "-Dmaven.install.skip=true")
    run("mvn", "-q", "-B", *skipped, target, "deploy", place=JAVA)


def build_typescript() -> None:
    """Install what the package needs, generate the stubs and compile.

    Raises:
        ClientFailed: Something could not be had, or does not compile.
    """
    # Locks hold addresses of registries; the versions are pinned in package.json instead.
    installed = TYPESCRIPT / "node_modules" / ".package-lock.json"
    wanted = TYPESCRIPT / "package.json"
    if not installed.exists() or installed.stat().st_mtime < wanted.stat().st_mtime:
        run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", place=TYPESCRIPT)
    plugin = TYPESCRIPT / "node_modules" / ".bin" / "protoc-gen-ts_proto"
    out = TYPESCRIPT / "src" / "generated"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    names = [*protos.proto_names([protos.OWN]), *TS_GOOGLE]
    for each, options in ((names, TS_OPTIONS), (TS_REASONS, TS_REASON_OPTIONS)):
        said = f"--ts_proto_opt={','.join(options)}"
        protoc(f"--plugin={plugin}", f"--ts_proto_out={out}", said, names=each)
    run("npm", "run", "--silent", "build", place=TYPESCRIPT)
    for name in dist.SHARED:
        shutil.copyfile(ROOT / name, TYPESCRIPT / name)
    target = DIST / "typescript"
    target.mkdir(parents=True, exist_ok=True)
    run("npm", "pack", "--silent", "--pack-destination", str(target), place=TYPESCRIPT)


def version_of_all() -> str:
    """The version that members and clients share."""
    [version] = {each.project["version"] for each in members()}
    return str(version)


QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A build ends before the JVM's better compiler has earned its keep."""

GO_TOOLS: Final = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)
TS_OPTIONS: Final = (
    "outputServices=grpc-js",
    "esModuleInterop=true",
    "importSuffix=.js",
    "forceLong=bigint",
    "useDate=false",
    "env=node",
    "useExactTypes=false",
    "outputJsonMethods=false",
)
TS_GOOGLE: Final = ("google/rpc/status.proto", "google/rpc/error_details.proto")
"""Imported protos of others, but for well-known types."""
TS_REASONS: Final = ("ariane/common/v1/error_reason.proto", "ariane/common/v1/reason_options.proto")
TS_REASON_OPTIONS: Final = (
    "outputSchema=no-file-descriptor",
    "outputEncodeMethods=false",
    "outputPartialMethods=false",
    "outputJsonMethods=false",
    "esModuleInterop=true",
    "importSuffix=.js",
)
"""With what the contract says of each value, which stubs otherwise do not have here."""
TOOLCHAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "go": ("go",),
    "java": ("java", "mvn"),
    "typescript": ("node", "npm"),
}
MADE: Final[Mapping[str, tuple[Path, ...]]] = {
    "go": (GO / "bin" / "conformance", DIST / "go"),
    "java": (JAVA / "target" / "test-classes", DIST / "java"),
    "typescript": (TYPESCRIPT / "dist" / "conformance", DIST / "typescript"),
}
BUILDERS: Final[Mapping[str, Callable[[], None]]] = {
    "go": build_go,
    "java": build_java,
    "typescript": build_typescript,
}


def protoc(*arguments: str, names: Sequence[str] = ()) -> None:
    """Run the pinned compiler.

    Args:
        arguments: Plugins and where their output goes.
        names: The protos. Empty: the contract.

    Raises:
        ClientFailed: It does not compile.
    """
    try:
        protos.protoc(*arguments, *(names or protos.proto_names([protos.OWN])))
    except protos.ToolFailed as failure:
        raise ClientFailed(str(failure)) from failure


def run(*command: str, place: Path) -> None:
    """Run a tool in a folder.

    Raises:
        ClientFailed: With what it printed.
    """
    environment = {"MAVEN_OPTS": QUICK_JVM, **os.environ, "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise ClientFailed(f"{command[0]} ended with status {done.returncode}: {said}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
