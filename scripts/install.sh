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
"$target/release/weir" man >"$made/weir.1"
"$target/release/weir" completions bash >"$made/weir.bash"
"$target/release/weir" completions zsh >"$made/_weir"
"$target/release/weir" completions fish >"$made/weir.fish"
install -D -m 644 "$made/weir.1" "$root/share/man/man1/weir.1"
install -D -m 644 "$made/weir.bash" "$root/share/bash-completion/completions/weir"
install -D -m 644 "$made/_weir" "$root/share/zsh/site-functions/_weir"
install -D -m 644 "$made/weir.fish" "$root/share/fish/vendor_completions.d/weir.fish"
printf 'installed %s\n' "$root/bin/weir"
