#!/usr/bin/env bash
# What the machine can say about the code without running it: formatting, clippy (stricter for the pure crates), and
# the project's own rules, those of the crates of others among them. Exactly what CI runs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP" || exit 1

exports=$(scripts/rocksdb-cache.sh) || exit 1
eval "$exports"
# The same profile as the tests, so that build scripts and macros are built once.
profile=(--profile ci)
failed=()

part() {
    local name=$1
    shift
    say "check: $name"
    "$@" || failed+=("$name")
}

# The crates that do no IO and know no clock, no threads and no randomness; xtask holds the list.
pure=()
while read -r crate; do pure+=(--package "loligo-$crate"); done < <(cargo run --quiet "${profile[@]}" --package xtask -- pure-crates)

if cargo fmt --version >/dev/null 2>&1; then
    part formatting cargo fmt --all --check
else
    skipped formatting "rustfmt is not there and could not be installed (rustup component add rustfmt)"
fi
part tidy cargo run --quiet "${profile[@]}" --package xtask -- tidy
part "crates of others" cargo run --quiet "${profile[@]}" --package xtask -- deny
if have cargo-deny; then
    # Advisories need the network: a release looks at them (CONTRIBUTING.md).
    part "cargo deny" cargo deny --locked check bans licenses sources
fi
if cargo clippy --version >/dev/null 2>&1; then
    part "clippy (strict, pure crates)" env CLIPPY_CONF_DIR="$LOLIGO_TOP/.config" \
        cargo clippy "${profile[@]}" "${pure[@]}" --lib --no-deps -- -D warnings
    part clippy cargo clippy "${profile[@]}" --workspace --all-targets -- -D warnings
else
    skipped clippy "it is not there and could not be installed (rustup component add clippy)"
fi

[ ${#failed[@]} = 0 ] && exit 0
say "check failed: $(IFS=,; echo "${failed[*]}")"
exit 1
