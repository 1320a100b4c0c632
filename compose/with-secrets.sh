#!/bin/sh
# Reads settings from files before it starts a service: ARIANE_X_FILE=/run/secrets/y becomes ARIANE_X. Other
# settings whose names end so, such as the file of rules, stay what they are.
set -eu
for name in $(env | sed -n 's|^\(ARIANE_[A-Z_]*\)_FILE=/run/secrets/.*|\1|p'); do
    eval "file=\$${name}_FILE"
    value=$(cat "$file")
    export "$name=$value"
    unset "${name}_FILE"
done
exec "$@"
