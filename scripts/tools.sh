# Sourced: installs the test programs that come from crates.io, one exact version each, into the cache.
# shellcheck shell=bash

TOOLS="$LOLIGO_CACHE/tools"

# tool NAME VERSION: makes sure that the program NAME of the crate NAME is there, and prints its path.
tool() {
    local name=$1 version=$2 root="$TOOLS/$1-$2"
    if [ ! -x "$root/bin/$name" ]; then
        mkdir -p "$TOOLS"
        say "installing $name $version (once for this machine)"
        (
            flock 9
            [ -x "$root/bin/$name" ] ||
                retry 3 env -u RUSTFLAGS cargo install --quiet --locked --root "$root.new" --target-dir "$TOOLS/target" "$name@$version" >&2
            [ -x "$root/bin/$name" ] || mv -T "$root.new" "$root"
            rm -rf "$TOOLS/target"
        ) 9>"$TOOLS/lock" || die "cannot install $name $version from crates.io; is the network there? By hand: cargo install --root $root $name@$version"
    fi
    echo "$root/bin/$name"
}
