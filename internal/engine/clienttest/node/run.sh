#!/bin/sh
# Runs client.mjs; the first run installs the client into node_modules beside this file. Arguments go to client.mjs.
set -eu
cd "$(dirname "$0")"
stamp=node_modules/.lock.sha256
want=$(sha256sum package-lock.json | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
  if ! command -v npm >/dev/null; then
    echo "run.sh: npm is missing; install Node.js 20.6 or later with npm" >&2
    exit 1
  fi
  npm ci --no-audit --no-fund --loglevel=error >&2
  echo "$want" >"$stamp"
fi
exec node client.mjs "$@"
