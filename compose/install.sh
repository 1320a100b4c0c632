#!/bin/sh
# Installs packages from /dist, and nothing else, into /opt/ariane; drops what no service needs.
set -eu
python3 -m pip --python /opt/ariane/bin/python install --quiet --no-cache-dir --no-index --find-links /dist "$@"
cd /opt/ariane/lib/python3*/site-packages
find . -name tests -type d -prune -exec rm -rf {} +
find . \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.a' \) -delete
# What its own package does not import but when asked: helpers of tests and of builds, and the second way
# of zstandard to its library, which CPython does not take.
rm -rf numpy/f2py numpy/distutils sqlalchemy/testing zstandard/_cffi.*
# Programs of packages that services use as libraries.
find /opt/ariane/bin -type f ! -name 'ariane*' ! -name 'python*' -delete
