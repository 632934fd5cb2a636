#!/bin/sh
# Records testdata/recorded afresh: runs every scenario of every SDK and instrumentation against the scripted test
# server and keeps what they sent, without content. Takes about two minutes, more on the first run. Arguments: none.
set -eu
cd "$(dirname "$0")/.."
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

for program in python/otel python/otel-latest python/openllmetry python/openinference \
  node/otel node/otel-headers node/openllmetry node/openinference; do
  echo "recording $program" >&2
  "traffic/${program%/*}/run.sh" --base-url "$base_url" --otlp "$otlp" --scenario all --dialect "${program#*/}" >>"$work/runs.jsonl"
done

kill "$fakellm" "$otlpsink"
wait "$fakellm" "$otlpsink"
pids=""
mkdir -p testdata/recorded
rm -f testdata/recorded/*.json
"$work/mkfixture" --spans "$work/spans.jsonl" --requests "$work/requests.jsonl" --runs "$work/runs.jsonl" --out testdata/recorded
