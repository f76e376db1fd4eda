#!/usr/bin/env bash
# The whole of pjdfstest on DIR, as root. Fails if a case fails that docs/pjdfstest-exclusions.txt does not name, or if
# one passes that it names.
# usage: scripts/pjdfstest.sh DIR [pattern...]
# With LOLIGO_PJD_REMOUNT=PROGRAM in the environment the cases of EROFS run, too: they remount the file system by mount(8), which finds PROGRAM as
# its helper, in a mount namespace of their own. Some fail with EBUSY: the kernel refuses to make a mount read-only while it holds the inode of
# a file that was removed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
. "$LOLIGO_TOP/scripts/tools.sh"

dir=${1:?usage: scripts/pjdfstest.sh DIR [pattern...]}
shift
[ -d "$dir" ] || die "$dir is not a directory"
[ "$(id -u)" = 0 ] || die "pjdfstest switches users: run it as root"
program=$(tool pjdfstest 0.2.2)
config=$(mktemp "${TMPDIR:-/tmp}/pjdfstest.XXXXXX.toml")
output=$(mktemp "${TMPDIR:-/tmp}/pjdfstest.XXXXXX.out")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/pjdfstest.XXXXXX")
trap 'rm -rf "$config" "$output" "$scratch"' EXIT

# Two users that every Debian has, with their groups: none has to be made.
second=""
for pair in daemon:daemon bin:bin www-data:www-data; do
    id -u "${pair%:*}" >/dev/null 2>&1 && getent group "${pair#*:}" >/dev/null && second=$pair && break
done
[ -n "$second" ] || die "none of the users daemon, bin, www-data exists here"
nobody_group=$(id -gn nobody)

# For EXDEV another file system is needed.
other=""
for candidate in /dev/shm "${TMPDIR:-/tmp}" /run; do
    [ -w "$candidate" ] && [ "$(stat -c %d "$candidate")" != "$(stat -c %d "$dir")" ] && other=$candidate && break
done

# mount(8) looks for helpers in /sbin: there this one is seen beside all others, by what runs below.
remount=false
apart=()
if [ -n "${LOLIGO_PJD_REMOUNT:-}" ] && unshare --mount true 2>/dev/null; then
    remount=true
    mkdir "$scratch/orig" "$scratch/sbin"
    cat >"$scratch/apart" <<'END'
set -e
mount --bind /usr/sbin "$1/orig"
cp -as "$1/orig/." "$1/sbin"
ln -sf "$LOLIGO_PJD_REMOUNT" "$1/sbin/mount.fuse.loligo"
mount --bind "$1/sbin" /usr/sbin
shift
exec "$@"
END
    apart=(unshare --mount sh "$scratch/apart" "$scratch")
fi

{
    echo '[features]'
    [ -z "$other" ] || echo "secondary_fs = \"$other\""
    printf '%s = {}\n' posix_fallocate rename_ctime utime_now utimensat
    echo '[settings]'
    echo 'naptime = 0.01'
    echo "allow_remount = $remount"
    echo 'expected_failures = ['
    sed -n 's/^\([a-z][^ #]*\).*/  "\1",/p' "$LOLIGO_TOP/docs/pjdfstest-exclusions.txt"
    echo ']'
    echo '[dummy_auth]'
    echo "entries = [[\"nobody\", \"$nobody_group\"], [\"${second%:*}\", \"${second#*:}\"]]"
} >"$config"

status=0
(cd "$dir" && NO_COLOR=1 RUST_BACKTRACE=0 "${apart[@]}" "$program" --configuration-file "$config" --path "$dir" "$@") </dev/null >"$output" 2>&1 || status=$?
# Case by case only where something went wrong; always the counts and why cases were skipped.
grep -A4 -E 'FAILED|PASSED UNEXPECTEDLY' "$output" || true
summary=$(grep 'Summary' "$output" | tail -n 1) || true
if [ -z "$summary" ]; then
    tail -n 20 "$output"
    die "pjdfstest ended with status $status before its summary"
fi
echo "skipped, by reason:"
grep -A1 -E ' skipped$' "$output" | grep -v -E ' skipped$|^--' | sort | uniq -c | sort -rn | head -n 10 || true
echo "pjdfstest: $summary"
passed=$(sed -E 's/.* ([0-9]+) passed.*/\1/' <<<"$summary")
[ $# -gt 0 ] || [ "$passed" -ge 300 ] || die "only $passed cases passed: the suite did not really run"
exit "$status"
