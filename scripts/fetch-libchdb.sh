#!/bin/sh
# Fetches libchdb.so, the embedded ClickHouse engine, from its npm package into .libchdb/, checked against a pinned hash.
# Does nothing when the right file is there. Usage: scripts/fetch-libchdb.sh [folder]
set -eu

VERSION=26.7.3-stable.1
root=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-$root/.libchdb}

fail() {
	echo "fetch-libchdb: $1" >&2
	exit 1
}

# Integrity is npm's dist.integrity of the tarball; size is that of libchdb.so in it, in bytes.
case $(uname -s)-$(uname -m) in
Linux-x86_64)
	package=lib-linux-x64-gnu
	integrity=sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==
	size=566330096
	;;
*)
	fail "no pinned libchdb $VERSION for $(uname -s) on $(uname -m): use 'detectd serve' with a ClickHouse server, or put a libchdb ${VERSION%%-*} in place yourself and set DRIFTLINE_LIBCHDB to its path"
	;;
esac

glibc=
for loader in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* /lib/*/ld-linux-*.so.*; do
	[ -e "$loader" ] && glibc=yes
done
if [ "$(uname -s)" = Linux ] && [ -z "$glibc" ]; then
	fail "this system has no glibc (musl?), which libchdb needs: use a glibc-based system or image, or 'detectd serve' with a ClickHouse server"
fi

library=$target/libchdb.so
record=$target/libchdb.version
want="@chdb/$package@$VERSION $integrity $size"

file_size() { wc -c <"$1" | tr -d ' '; }

if [ -f "$library" ] && [ -f "$record" ] && [ "$(head -n 1 "$record")" = "$want" ] && [ "$(file_size "$library")" = "$size" ]; then
	exit 0
fi

command -v npm >/dev/null 2>&1 || fail "npm is not in PATH: install Node.js with npm (Debian: apt-get install npm), then run this again"
command -v node >/dev/null 2>&1 || fail "node is not in PATH: install Node.js with npm (Debian: apt-get install nodejs npm), then run this again"

mkdir -p "$target" || fail "cannot create $target: check its permissions"
work=$(mktemp -d "$target/fetch.XXXXXX") || fail "cannot write to $target: check its permissions"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "fetch-libchdb: fetching @chdb/$package@$VERSION (170 MiB packed, 540 MiB unpacked) into $target" >&2
if ! (cd "$work" && npm pack --silent "@chdb/$package@$VERSION" >npm.out 2>npm.err); then
	sed 's/^/  npm: /' "$work/npm.out" "$work/npm.err" >&2
	fail "npm could not fetch @chdb/$package@$VERSION: check the network, the proxy and 'npm config get registry', then run this again"
fi
tarball=
for f in "$work"/*.tgz; do
	[ -f "$f" ] && tarball=$f
done
[ -n "$tarball" ] || fail "npm pack left no tarball; this npm ($(npm --version)) may be too old: install npm 8 or newer"

got=sha512-$(node -e 'const h = require("crypto").createHash("sha512"); require("fs").createReadStream(process.argv[1]).on("data", d => h.update(d)).on("end", () => console.log(h.digest("base64")))' "$tarball")
[ "$got" = "$integrity" ] || fail "the tarball's integrity is $got, pinned is $integrity: nothing was installed; a proxy or registry mirror may have changed it"

tar -xzf "$tarball" -C "$work" package/libchdb.so || fail "cannot unpack the library: is the disk full? 600 MB are needed in $target"
[ "$(file_size "$work/package/libchdb.so")" = "$size" ] || fail "the unpacked library has $(file_size "$work/package/libchdb.so") bytes, expected $size"
chmod 755 "$work/package/libchdb.so"
echo "$want" >"$work/record"
# The record goes last: a library without it is fetched again.
rm -f "$record"
mv -f "$work/package/libchdb.so" "$library"
mv -f "$work/record" "$record"
echo "fetch-libchdb: $library is ready" >&2
