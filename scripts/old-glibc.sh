#!/usr/bin/env bash
# Makes sure that the libraries of Debian 11 (glibc 2.31, 2020) are in the cache, and prints the linker arguments with which the packaged
# program runs on each glibc since then: that glibc, libstdc++ of the compiler in use linked statically, and the two functions that
# libstdc++ takes from a newer glibc (packaging/old-glibc.c). Only x86_64: the sums below are of its packages.
# usage: scripts/old-glibc.sh    prints one argument a line, for the compiler as linker
# environment: LOLIGO_OLD_DEBIAN, a mirror that has bullseye (http://deb.debian.org/debian; later http://archive.debian.org/debian)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

[ "$(uname -m)" = x86_64 ] || die "scripts/old-glibc.sh has sums for x86_64 only, this is $(uname -m). Add those of this machine's packages"
packages="libc6=2.31-13+deb11u11 05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282
libc6-dev=2.31-13+deb11u11 e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3
libgcc-s1=10.2.1-6 e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf"
mirror=${LOLIGO_OLD_DEBIAN:-http://deb.debian.org/debian}
dir=$LOLIGO_CACHE/glibc-2.31

# The packages are trusted by their sums, so neither keys nor the age of the mirror's lists count.
fetch() { # DIR
    local apt=$1/apt name sum file
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$1/tree"
    echo "deb [trusted=yes] $mirror bullseye main" >"$apt/sources.list"
    : >"$apt/status"
    local command=(apt-get -q -o "Dir::State=$apt" -o "Dir::State::status=$apt/status" -o "Dir::Etc::sourcelist=$apt/sources.list"
        -o Dir::Etc::sourceparts=- -o "Dir::Cache=$apt/cache" -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root
        -o Acquire::Languages=none)
    retry 3 "${command[@]}" update >&2
    while read -r name sum; do
        (cd "$1" && retry 3 "${command[@]}" download "$name" >&2)
        file=$(find "$1" -maxdepth 1 -name "${name%%=*}_*.deb")
        echo "$sum  $file" | sha256sum --check --quiet >&2 || die "$file is not the package that was expected: its sum differs. Try another mirror: LOLIGO_OLD_DEBIAN"
        dpkg-deb -x "$file" "$1/tree"
        rm "$file"
    done <<<"$packages"
    rm -rf "$apt"
    # Absolute links would lead to this machine's libraries.
    local link
    find "$1/tree" -type l -lname '/*' | while read -r link; do ln -sfnr "$1/tree$(readlink "$link")" "$link"; done
}

if [ ! -d "$dir" ]; then
    say "fetching the libraries of Debian 11 (once for this machine)"
    work=$(mktemp -d "$LOLIGO_CACHE/glibc.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    fetch "$work"
    mv -T "$work" "$dir" 2>/dev/null || [ -d "$dir" ] || die "cannot move $work to $dir"
fi

# Where only the static library is, the linker finds no other one.
mkdir -p "$dir/static"
library=$(c++ -print-file-name=libstdc++.a)
[ -e "$library" ] || die "the compiler has no libstdc++.a: apt-get install g++"
ln -sfn "$library" "$dir/static/libstdc++.a"
cc -O2 -c "$LOLIGO_TOP/packaging/old-glibc.c" -o "$dir/old-glibc.o.$$"
mv "$dir/old-glibc.o.$$" "$dir/old-glibc.o"
# The compiler looks beside itself before it looks in the sysroot: -B and -L come before both.
printf '%s\n' "--sysroot=$dir/tree" "-B$dir/tree/usr/lib/x86_64-linux-gnu" "-L$dir/tree/lib/x86_64-linux-gnu" "-L$dir/static" \
    "$dir/old-glibc.o" -Wl,--build-id=sha1
