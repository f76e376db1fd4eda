#!/usr/bin/env bash
# Makes sure that a static librocksdb.a of exactly the version in Cargo.lock is in the cache, and prints the two
# exports that make cargo use it. It is built once per machine: by scripts/rocksdb-build.sh, or, where that does not know the version or
# the machine, by the crate.
# usage: eval "$(scripts/rocksdb-cache.sh)"
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

sys_version=$(locked_version librocksdb-sys)
rocksdb_version=$(locked_version rocksdb)
[ -n "$sys_version" ] && [ -n "$rocksdb_version" ] || die "Cargo.lock names no librocksdb-sys: run 'cargo generate-lockfile'"
arch=$(uname -m)
[ "$arch" = x86_64 ] && suffix="" || suffix="-$arch"
dir="$LOLIGO_CACHE/rocksdb-$sys_version-lz4$suffix"
work="$LOLIGO_CACHE/build-rocksdb-$sys_version"
log="$LOLIGO_CACHE/build-rocksdb.log"

# A crate of its own, so that the library is the same whatever the workspace around it looks like.
write_crate() {
    mkdir -p "$work/src"
    cat >"$work/Cargo.toml" <<TOML
[package]
name = "rocksdb-cache"
version = "0.0.0"
edition = "2024"

[dependencies]
rocksdb = { version = "=$rocksdb_version", default-features = false, features = ["bindgen-runtime", "lz4"] }

[workspace]
TOML
    echo 'fn main() {}' >"$work/src/main.rs"
    # The workspace's lock file pins every version; cargo drops what is not used here.
    cp "$LOLIGO_TOP/Cargo.lock" "$work/Cargo.lock"
}

# found: the library that cargo left behind, if it is whole (cargo moves on to rocksdb itself only after it).
found() { find "$work/target/release/build" -path '*librocksdb-sys-*/out/librocksdb.a' 2>/dev/null | head -n 1; }

build() {
    local fast=0
    mkdir -p "$dir"
    say "building RocksDB ($sys_version) once for this machine; a few minutes on two cores; log: $log"
    "$LOLIGO_TOP/scripts/rocksdb-build.sh" "$dir/librocksdb.a.new" 2> >(tee "$log" >&2) 9>&- || fast=$?
    if [ "$fast" = 0 ]; then
        finish "$dir/librocksdb.a.new"
        return
    fi
    say "the crate's own build is used instead; about 13 minutes on two cores"
    write_crate
    (
        unset CARGO_TARGET_DIR RUSTFLAGS CARGO_ENCODED_RUSTFLAGS ROCKSDB_LIB_DIR ROCKSDB_STATIC ROCKSDB_COMPILE
        cd "$work" && exec cargo build --release --target-dir "$work/target"
    ) </dev/null >"$log" 2>&1 9>&- &
    local pid=$! started=$SECONDS shown=$SECONDS status=0
    trap 'kill "$pid" 2>/dev/null' EXIT
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        [ $((SECONDS - shown)) -ge 30 ] || continue
        shown=$SECONDS
        say "  RocksDB: $((SECONDS - started)) s, $(find "$work/target" -name '*.o' 2>/dev/null | wc -l) of about 350 objects compiled"
    done
    wait "$pid" || status=$?
    trap - EXIT
    if [ "$status" != 0 ]; then
        tail -n 40 "$log" >&2
        die "RocksDB did not build (status $status). Missing is usually g++ or libclang-dev: run scripts/setup.sh. Whole log: $log"
    fi
    local library
    library=$(found)
    [ -n "$library" ] || die "cargo succeeded but left no librocksdb.a under $work/target/release/build"
    cp "$library" "$dir/librocksdb.a.new"
    rm -rf "$work"
    finish "$dir/librocksdb.a.new"
}

# finish FILE: it is the library from now on.
finish() {
    sync "$1" 2>/dev/null || true
    mv "$1" "$dir/librocksdb.a"
    say "RocksDB is in $dir (took $SECONDS s)"
}

if [ ! -s "$dir/librocksdb.a" ]; then
    # Two builds at the same time wait for each other; the second finds the work done.
    exec 9>"$LOLIGO_CACHE/rocksdb.lock"
    flock -n 9 || { say "another build of RocksDB is running; waiting for it" && flock 9; }
    [ -s "$dir/librocksdb.a" ] || build
    exec 9>&-
fi
printf 'export ROCKSDB_LIB_DIR=%q\nexport ROCKSDB_STATIC=1\n' "$dir"
