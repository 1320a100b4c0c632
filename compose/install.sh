#!/bin/sh
# Installs packages from /dist, and nothing else, into /opt/ariane; drops what no service needs.
set -eu
python3 -m pip --python /opt/ariane/bin/python install --quiet --no-cache-dir --no-index --find-links /dist "$@"
find /opt/ariane -name tests -type d -prune -exec rm -rf {} +
find /opt/ariane -name '*.pyi' -delete
