#!/usr/bin/env bash
# Makes the packages: .deb, .rpm, a tarball, an image for containers (OCI), debug symbols, a list of components (CycloneDX), and
# SHA256SUMS. The same commit gives the same bytes on the same machine. Their contents: docs/deploy.md, "Packages". The parts are in
# scripts/package-parts.sh.
# usage: scripts/package.sh [DIR]    by default target/package; packages that are there are replaced
# environment: LOLIGO (built if it is not said), the program to package; SOURCE_DATE_EPOCH (the time of the commit)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"
. scripts/package-parts.sh
umask 022
export LC_ALL=C TZ=UTC

scripts/setup.sh package
out=${1:-$(target_dir)/package}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(uname -m)
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

# The program with symbols; its own directory of products, because the flags are others than those of `make build`.
built() {
    local dir host exports flags arguments
    local -a words
    dir=$(target_dir)/package-build
    host=$(rustc -vV | sed -n 's/^host: //p')
    exports=$(scripts/rocksdb-cache.sh)
    eval "$exports"
    # No path of this machine is in the program: messages of panics name source files.
    local remap=("$LOLIGO_TOP=/loligo" "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$(rustc --print sysroot)=/rust" "$dir=/target")
    flags=$(printf -- '--remap-path-prefix=%s\x1f' "${remap[@]}")
    # In a variable first, so that a failure ends this.
    arguments=$(scripts/old-glibc.sh)
    mapfile -t words <<<"$arguments"
    flags+=$(printf -- '-Clink-arg=%s\x1f' "${words[@]}")
    export CARGO_ENCODED_RUSTFLAGS=${flags%$'\x1f'} LOLIGO_COMMIT=$commit
    export CFLAGS="${remap[*]/#/-ffile-prefix-map=}"
    export CXXFLAGS=$CFLAGS
    retry 3 cargo fetch --quiet --locked --target "$host" >&2
    # With a target said, flags are for the program only and not for build scripts.
    cargo build --release --locked --package loligo-cli --bin loligo --target "$host" --target-dir "$dir" >&2
    echo "$dir/$host/release/loligo"
}

program=${LOLIGO:-$(built)}
work=$(mktemp -d "${TMPDIR:-/tmp}/loligo-package.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/out"

split_symbols "$program" "$work"
glibc=$(checked_glibc "$work/loligo")
stage "$work" "$work/tree"
make_deb "$work" "$glibc"
make_rpm "$work"
make_tarball "$work"
make_debug "$work"
make_image "$work"
make_sbom >"$work/out/loligo-$version.cdx.json"
(cd "$work/out" && sha256sum -- * >SHA256SUMS)

mkdir -p "$out"
find "$out" -maxdepth 1 -type f \( -name 'loligo[-_]*' -o -name SHA256SUMS \) -delete
cp "$work/out/"* "$out/"
(cd "$out" && ls -l --time-style=+ -- * >&2)
say "packages are in $out; the program needs glibc $glibc or newer"
