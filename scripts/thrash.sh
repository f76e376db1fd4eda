#!/usr/bin/env bash
# Moves random directories, or fragments of them, of a mounted file system to random ranks, until it is ended or the file
# STOP is there: what runs on the mount must not notice. Says at the end how many moves were made and how many were refused or came too late.
# With LOLIGO_THRASH_MEMBERS in the environment ranks are drained, and added again, too.
# usage: scripts/thrash.sh LOLIGO DATA MOUNT RANKS [PAUSE-SECONDS [STOP]]
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

[ $# -ge 4 ] || die "usage: scripts/thrash.sh LOLIGO DATA MOUNT RANKS [PAUSE-SECONDS [STOP]]"
loligo=$1 data=$2 mount=$3 ranks=$4 pause=${5:-1} stop=${6:-}
moved=0 not=0 drained=0 added=0
report() {
    trap - EXIT INT TERM
    echo "thrash: $moved directories and fragments moved, $not refused or gone by then; $drained ranks drained, $added added"
    exit 0
}
trap report EXIT INT TERM

# What a suite mounts below the mount must not be in use because the search is in it: it is made among mounts of its own.
apart=(unshare --mount)
"${apart[@]}" true 2>/dev/null || apart=()

there=()
for ((rank = 0; rank < ranks; rank++)); do there+=("$rank"); done

while [ -d "$data" ] && [ ! -e "${stop:-$data/none}" ]; do
    if [ -n "${LOLIGO_THRASH_MEMBERS:-}" ]; then
        mapfile -t there < <(timeout 10 "$loligo" rank list --data "$data" 2>/dev/null | awk 'NR > 1 { print $1 }')
        [ ${#there[@]} -gt 0 ] || there=(0)
    fi
    # Not too deep: each step of the search is work for the file system, too.
    dir=$(timeout 10 "${apart[@]}" find "$mount" -mindepth 1 -maxdepth 4 -type d 2>/dev/null | shuf -n 1)
    if [ -n "$dir" ]; then
        bits=$((RANDOM % 4)) frag=()
        # Whole in one case of four, so that fragments come together again.
        [ $bits -eq 0 ] || frag=(--frag "$((RANDOM % (1 << bits)))/$bits")
        if timeout 20 "$loligo" --quiet subtree migrate "${dir#"$mount"}" "${there[RANDOM % ${#there[@]}]}" "${frag[@]}" --data "$data" \
            >/dev/null 2>&1; then
            moved=$((moved + 1))
        else
            not=$((not + 1))
        fi
    fi
    if [ -n "${LOLIGO_THRASH_MEMBERS:-}" ] && [ "$ranks" -gt 1 ]; then
        if [ $((RANDOM % 10)) = 0 ]; then
            timeout 20 "$loligo" --quiet rank drain "${there[RANDOM % ${#there[@]}]}" --data "$data" >/dev/null 2>&1 &&
                drained=$((drained + 1))
        elif [ ${#there[@]} -lt "$ranks" ] && [ $((RANDOM % 5)) = 0 ]; then
            timeout 20 "$loligo" --quiet rank add --data "$data" >/dev/null 2>&1 && added=$((added + 1))
        fi
    fi
    # In the background and waited for, so that a signal ends it at once.
    sleep "$pause" &
    wait $!
done
