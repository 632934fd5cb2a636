#!/bin/sh
# Runs traffic.py; the first run installs what it needs beside this file: into .venv, and for LangChain, which brings
# much with it, into .venv-langchain. Arguments go to traffic.py.
set -eu
cd "$(dirname "$0")"
group=""
case " $* " in
  *"langchain-"*) group="-langchain" ;;
esac
venv=.venv$group
requirements=requirements$group.txt
stamp=$venv/requirements.sha256
want=$(sha256sum "$requirements" | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
  rm -rf "$venv"
  if ! python3 -m venv "$venv" >&2; then
    echo "run.sh: python3 cannot make a virtual environment; install Python 3.10 or later with venv (Debian: python3-venv)" >&2
    exit 1
  fi
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" >&2
  echo "$want" >"$stamp"
fi
exec "$venv/bin/python" traffic.py "$@"
