#!/usr/bin/env bash
# Runs every test of the project. Says first what is missing, all at once.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$1 ($2)"); }
need go "https://go.dev"
need node "Debian: nodejs"
need npm "Debian: npm"
need python3 "Debian: python3 python3-venv"
if command -v python3 >/dev/null 2>&1 && ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then
  missing+=("python3's modules venv and ensurepip (Debian: python3-venv)")
fi
need prometheus-alertmanager "Debian: prometheus-alertmanager"
need chromium "Debian: chromium"
if ((${#missing[@]})); then
  printf 'make test: these programs are missing:\n' >&2
  printf '  - %s\n' "${missing[@]}" >&2
  exit 1
fi

unformatted=$(git ls-files '*.go' | xargs -r gofmt -l)
if [ -n "$unformatted" ]; then
  printf 'make test: not gofmt-clean, run gofmt -w on:\n%s\n' "$unformatted" >&2
  exit 1
fi

# -p 2: several packages start a real engine of their own. The timeout ends what hangs, on a busy machine too.
exec go test -p "${TEST_PARALLEL:-2}" -timeout 40m "$@" ./...
