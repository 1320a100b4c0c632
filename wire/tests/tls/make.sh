#!/usr/bin/env bash
# Makes the certificates of these tests anew: an authority, a server (localhost, 127.0.0.1, ::1) and
# a client (CN=robot). They protect nothing.
set -euo pipefail
cd "$(dirname "$0")"
new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" "${@:2}"; }
new authority -x509 -days 36500 -subj "/CN=tests of the transport" -out authority.pem
sign() { openssl x509 -req -days 36500 -CA authority.pem -CAkey authority.key -in "$1.csr" -out "$1.pem" -extfile <(echo "$2"); }
new server -subj "/CN=server" -out server.csr
sign server "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"
new client -subj "/CN=robot" -out client.csr
sign client "subjectAltName=DNS:robot.test"
rm -f ./*.csr authority.key ./*.srl
