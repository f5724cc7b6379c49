#!/bin/sh
# Builds weir and installs it with its man pages and completions below $DESTDIR$PREFIX.
#
# Run it as the user who has cargo: it uses sudo only to write where that user may not.
set -eu

cd "$(dirname "$0")/.."

root="${DESTDIR:-}${PREFIX:-/usr/local}"
target="${CARGO_TARGET_DIR:-target}"

if ! command -v cargo >/dev/null 2>&1; then
    echo 'install: cargo is not in PATH: run this as the user who has rustup, not with sudo' >&2
    exit 2
fi
# The nearest folder that exists says whether this user may write below it.
exists=$root
while [ ! -e "$exists" ]; do exists=$(dirname "$exists"); done
if [ -w "$exists" ] && { [ ! -e "$root/bin" ] || [ -w "$root/bin" ]; }; then
    write=
elif command -v sudo >/dev/null 2>&1; then
    write=sudo
else
    echo "install: $exists is not writable and there is no sudo: make install PREFIX=\$HOME/.local" >&2
    exit 2
fi

cargo build --release --locked --package weir
$write install -D -m 755 "$target/release/weir" "$root/bin/weir"

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/man"
"$target/release/weir" man --output "$made/man"
"$target/release/weir" completions bash >"$made/weir.bash"
"$target/release/weir" completions zsh >"$made/_weir"
"$target/release/weir" completions fish >"$made/weir.fish"
for page in "$made"/man/*.1; do
    $write install -D -m 644 "$page" "$root/share/man/man1/${page##*/}"
done
$write install -D -m 644 "$made/weir.bash" "$root/share/bash-completion/completions/weir"
$write install -D -m 644 "$made/_weir" "$root/share/zsh/site-functions/_weir"
$write install -D -m 644 "$made/weir.fish" "$root/share/fish/vendor_completions.d/weir.fish"
printf 'installed %s\n' "$root/bin/weir"
