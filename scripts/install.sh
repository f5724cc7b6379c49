#!/bin/sh
# Builds weir and installs it with its man page and completions below $DESTDIR$PREFIX.
set -eu

cd "$(dirname "$0")/.."

root="${DESTDIR:-}${PREFIX:-/usr/local}"
target="${CARGO_TARGET_DIR:-target}"

cargo build --release --locked --package weir
install -D -m 755 "$target/release/weir" "$root/bin/weir"

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/man"
"$target/release/weir" man --output "$made/man"
"$target/release/weir" completions bash >"$made/weir.bash"
"$target/release/weir" completions zsh >"$made/_weir"
"$target/release/weir" completions fish >"$made/weir.fish"
for page in "$made"/man/*.1; do
    install -D -m 644 "$page" "$root/share/man/man1/${page##*/}"
done
install -D -m 644 "$made/weir.bash" "$root/share/bash-completion/completions/weir"
install -D -m 644 "$made/_weir" "$root/share/zsh/site-functions/_weir"
install -D -m 644 "$made/weir.fish" "$root/share/fish/vendor_completions.d/weir.fish"
printf 'installed %s\n' "$root/bin/weir"
