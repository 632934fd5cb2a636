#!/bin/sh
# Records testdata/recorded afresh: runs every scenario of every SDK and instrumentation against the scripted test
# server and keeps what they sent, without content. Takes about four minutes, more on the first run. A machine with
# nothing else to do records best: clients count the time in which they did not run.
#   traffic/record.sh                                          all of it
#   traffic/record.sh "python/otel node/otel"                  these, with all their scenarios
#   traffic/record.sh "python/otel node/otel" timeout,agent    these scenarios of these
set -eu
cd "$(dirname "$0")/.."
all="python/otel python/otel-latest python/openllmetry python/openinference python/pydantic-ai \
  python/langchain-openinference python/langchain-openllmetry \
  node/otel node/otel-headers node/openllmetry node/openinference node/vercel node/vercel-legacy"
programs=${1:-$all}
scenarios=${2:-all}
# Of these calls not one span is ever sent.
silent="node-openinference-abortstream"
work=$(mktemp -d)
pids=""
cleanup() {
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

go build -o "$work" ./cmd/fakellm ./traffic/otlpsink ./traffic/mkfixture

"$work/fakellm" --listen 127.0.0.1:0 --log-file "$work/requests.jsonl" >"$work/fakellm.out" &
fakellm=$!
"$work/otlpsink" --listen 127.0.0.1:0 --out "$work/spans.jsonl" >"$work/otlpsink.out" &
otlpsink=$!
pids="$fakellm $otlpsink"

# Each prints one line with its address once it listens.
address() {
  for _ in $(seq 100); do
    url=$(sed -n 's/.*"\(http[^"]*\)".*/\1/p' "$1")
    if [ -n "$url" ]; then
      echo "$url"
      return
    fi
    sleep 0.1
  done
  echo "record.sh: $1 shows no address" >&2
  exit 1
}
base_url=$(address "$work/fakellm.out")
otlp=$(address "$work/otlpsink.out")

for program in $programs; do
  echo "recording $program" >&2
  "traffic/${program%/*}/run.sh" --base-url "$base_url" --otlp "$otlp" --scenario "$scenarios" --dialect "${program#*/}" >>"$work/runs.jsonl"
done

kill "$fakellm" "$otlpsink"
wait "$fakellm" "$otlpsink"
pids=""
mkdir -p testdata/recorded
if [ $# = 0 ]; then rm -f testdata/recorded/*.json; fi
"$work/mkfixture" --spans "$work/spans.jsonl" --requests "$work/requests.jsonl" --runs "$work/runs.jsonl" --silent "$silent" --out testdata/recorded
