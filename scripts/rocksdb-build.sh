#!/usr/bin/env bash
# Compiles RocksDB, from the source in the crate librocksdb-sys, into a static library: many source files in one compilation (a unity
# build), rarely used ones with fewer optimisations, and without those that nothing here calls: transactions, backups and the like. The
# linker drops the functions of the C interface that would call them (--gc-sections), and fails if one that stays needs what is missing. The
# crate's own build, which scripts/rocksdb-cache.sh falls back on, takes several times as long. Not the binding, which cargo builds.
# usage: scripts/rocksdb-build.sh LIBRARY.a       exit status 3: this version or machine needs the crate's own build
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

[ $# = 1 ] || die "usage: scripts/rocksdb-build.sh LIBRARY.a"
library=$1
# The definitions below are those of build.rs in this version of the crate. Compare them, then raise the version.
made_for=0.19.0+11.8.1
# Source files in one compilation. More are faster, and take more memory (1.2 GiB at 12).
files=12

version=$(locked_version librocksdb-sys)
[ "$version" = "$made_for" ] || { say "RocksDB $version: scripts/rocksdb-build.sh knows $made_for only"; exit 3; }
[ "$(uname -sm)" = "Linux x86_64" ] || exit 3
have g++ || exit 3

# source_of CRATE: where cargo keeps its source.
source_of() {
    cargo metadata --locked --format-version 1 --manifest-path "$LOLIGO_TOP/Cargo.toml" |
        grep -o "\"manifest_path\":\"[^\"]*/$1-[0-9][^\"]*/Cargo.toml\"" | head -n 1 | cut -d'"' -f4 | xargs -r dirname
}
crate=$(source_of librocksdb-sys)
lz4=$(source_of lz4-sys)/liblz4/lib
[ -s "$crate/rocksdb_lib_sources.txt" ] && [ -d "$lz4" ] || exit 3

scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-rocksdb.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

flags=(-std=c++20 -fPIC -ffunction-sections -fdata-sections -w -include cstdint
    -I "$crate/rocksdb/include" -I "$crate/rocksdb" -I "$crate" -I "$lz4"
    -DLZ4=1 -DNDEBUG=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION -DOS_LINUX -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX
    -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT)

# No call of this file system comes by these.
unused='^(db/db_impl/db_impl_follower|table/sst_file_(dumper|reader)|test_util/transaction|tools/|util/(auto_tune|simple_mixed)'
unused+='|utilities/(agg_merge|backup|blob_db|cache_dump|convenience|debug|env_mirror|fault_injection_(env|secondary)|leveldb_options|memory'
unused+='|option_change|options/|persistent_cache|secondary_index|simulator_cache|transactions/(lock|optimistic|pessimistic|transaction_|write_)))'
# Calls come by these only at the start and the end.
cold='^(db/(blob|wide)/|db/c\.cc|db/(repair|import_|external_|convenience|experimental|trim_|db_info|malloc_)|db/db_impl/(compacted|db_impl_(debug|exp|follower|readonly|secondary))'
cold+='|db/compaction/compaction_(service|picker_(fifo|universal))|env/(env_(chroot|encryption)|mock|fs_(on|remap)|file_system_tracer)|monitoring/|options/'
cold+='|table/(adaptive|cuckoo|plain|sst_file|external)|test_util/|tools/|trace_replay/|util/(auto_tune|simple_mixed|build_version|coro|udt)|utilities/|cache/(compressed|tiered|secondary))'

# unity KIND OPTIMISATION: compilations of the source files on standard input.
unity() {
    local n=0
    while read -r file; do
        [ $((n % files)) != 0 ] || out=$(printf '%s/%s-%02d' "$scratch" "$1" $((n / files)))
        echo "$2" >"$out.level"
        printf '#include "rocksdb/%s"\n' "$file" >>"$out.cc"
        n=$((n + 1))
    done
}
sources=$(grep -vE "$unused|^util/build_version\.cc\$" "$crate/rocksdb_lib_sources.txt")
grep -vE "$cold" <<<"$sources" | unity hot -O2
grep -E "$cold" <<<"$sources" | unity cold -O1
printf '#include "build_version.cc"\n' >"$scratch/version.cc"
echo -O1 >"$scratch/version.level"

# Large ones last would leave a core idle: the hot ones are the large ones.
export scratch
printf '%s\0' "${flags[@]}" >"$scratch/flags"
printf '%s\0' "$scratch"/hot-*.cc "$scratch"/cold-*.cc "$scratch/version.cc" | xargs -0 -n 1 -P "$(nproc)" bash -c '
    out=${1%.cc}
    mapfile -d "" -t flags <"$scratch/flags"
    g++ "$(cat "$out.level")" "${flags[@]}" -c "$1" -o "$out.part" || exit 255
    mv "$out.part" "$out.o"
    echo "  RocksDB: $(find "$scratch" -name "*.o" | wc -l) of $(find "$scratch" -name "*.cc" | wc -l) parts compiled" >&2
' compile
rm -f "$library"
ar crs "$library" "$scratch"/*.o
