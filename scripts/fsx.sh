#!/usr/bin/env bash
# fsx: OPS random reads, writes, maps, truncates, holes, copies and syncs of one file on DIR, every read verified.
# usage: scripts/fsx.sh DIR [OPS] [SEED]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
. "$LOLIGO_TOP/scripts/tools.sh"

dir=${1:?usage: scripts/fsx.sh DIR [OPS] [SEED]}
ops=${2:-5000}
seed=${3:-1}
[ -d "$dir" ] || die "$dir is not a directory"
program=$(tool fsx 0.3.2)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/fsx.XXXXXX")
file="$dir/fsx-$seed-$$"
trap 'rm -rf "$scratch" "$file"' EXIT

cat >"$scratch/fsx.toml" <<TOML
flen = 1048576
[opsize]
max = 65536
[weights]
close_open = 2
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 5
sendfile = 3
posix_fadvise = 1
copy_file_range = 5
TOML
status=0
"$program" -f "$scratch/fsx.toml" -P "$scratch" -N "$ops" -S "$seed" "$file" </dev/null >"$scratch/out" 2>&1 || status=$?
if [ "$status" = 0 ]; then
    echo "fsx: seed $seed, $ops operations, all reads as written"
else
    tail -n 60 "$scratch/out"
    echo "fsx: seed $seed FAILED with status $status; again: scripts/fsx.sh $dir $ops $seed"
fi
exit "$status"
