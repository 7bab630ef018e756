#!/bin/sh
# Secrets come as files; PostgreSQL's client and the dashboard want them in their environment.
set -eu
secrets="${WARPWATCH_SECRETS:-/run/secrets}"
for pair in PGPASSWORD=database_password WARPWATCH_SECRET_KEY=secret_key WARPWATCH_OPENID_CLIENT_SECRET=openid_client_secret; do
  file="$secrets/${pair#*=}"
  if [ -e "$file" ]; then
    [ -r "$file" ] || { echo "warpwatch: user $(id -u) cannot read $file: chmod 644 it, in a folder of mode 700" >&2; exit 1; }
    value="$(cat "$file")"  # apart from export, which would hide that it failed
    export "${pair%%=*}=$value"
  fi
done
exec "$@"
