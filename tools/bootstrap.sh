#!/usr/bin/env bash
# Makes or mends .venv: the pinned environment, and every member in it, editable. Needs Python 3.11
# or later and nothing else; called by make whenever the pins or a pyproject.toml are newer.
set -euo pipefail
cd "$(dirname "$0")/.."

# An interpreter counts only if it runs: version managers leave names behind that do not.
find_python() {
    local candidate candidates=${PYTHON:-python3.11 python3 python3.12 python3.13 python}
    for candidate in $candidates; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "ArianeMQ needs Python 3.11 or later, and none of these is one: $candidates." >&2
    echo "Install it, or say where it is: make PYTHON=/path/to/python3.11" >&2
    return 1
}

member_folders() {
    .venv/bin/python -c 'from tools.workspace import members
for member in members():
    print(member.folder)'
}

begin=$SECONDS
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version); once, it takes a minute or two."
    rm -rf .venv
    "$python" -m venv .venv || {
        echo "No virtual environment could be made; Debian has it in the package python3-venv." >&2
        exit 1
    }
fi
pip=(.venv/bin/python -m pip --quiet --disable-pip-version-check)
# uv installs side by side what pip would one by one. It knows the index of pip's settings and the
# certificates that the machine trusts; where pip needs more than these, pip installs.
"${pip[@]}" install --no-compile --require-hashes \
    -r <(sed -n '/^uv==/,/[^\\]$/p' tools/constraints.txt)
index=${UV_INDEX_URL:-${PIP_INDEX_URL:-$("${pip[@]}" config get global.index-url 2>/dev/null || true)}}
[ -z "$index" ] || export UV_INDEX_URL="$index"
uv=(env UV_NATIVE_TLS=1 VIRTUAL_ENV="$PWD/.venv" .venv/bin/uv pip install --quiet --no-config --no-sources)
install() {
    # Modules are compiled when they are first imported: most never are.
    "${uv[@]}" "$@" || "${pip[@]}" install --no-compile "$@"
}
install --require-hashes -r tools/constraints.txt
# The pins hold all that the members need; building them must not fetch anything either.
editable=()
while read -r folder; do
    editable+=(-e "$folder")
done < <(member_folders)
install --no-deps --no-build-isolation "${editable[@]}"
touch .venv/.stamp
echo "The environment in .venv is up to date ($((SECONDS - begin)) s)."
