#!/bin/sh
# Builds a Debian package of weir: ${CARGO_TARGET_DIR:-target}/debian/weir_VERSION_ARCH.deb.
#
# Needs dpkg-dev. The package has the program (stripped), a man page for every command, completions,
# the systemd units, the guide and the dashboard. Nothing is enabled by installing it.
# DEBFULLNAME and DEBEMAIL name the maintainer, as for Debian's tools.
set -eu
umask 022

cd "$(dirname "$0")/.."

refuse() { printf 'make-deb: %s\n' "$*" >&2; exit 2; }
for tool in dpkg-deb dpkg-shlibdeps strip gzip; do
    command -v "$tool" >/dev/null 2>&1 || refuse "$tool is missing: install dpkg-dev"
done

maintainer="${DEBFULLNAME:-The weir developers} <${DEBEMAIL:-weir-fw@users.noreply.github.com}>"
target="${CARGO_TARGET_DIR:-$PWD/target}"
cargo build --profile dist --locked --package weir
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
# The date of the files in the package is that of the commit, so that two builds are equal.
date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
doc=$root/usr/share/doc/weir

install -D -m 755 "$target/dist/weir" "$root/usr/bin/weir"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/weir"

mkdir -p "$root/usr/share/man/man1"
"$target/dist/weir" man --output "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1

mkdir -p "$work/completions"
for shell in bash zsh fish; do
    "$target/dist/weir" completions "$shell" >"$work/completions/$shell"
done
install -D -m 644 "$work/completions/bash" "$root/usr/share/bash-completion/completions/weir"
install -D -m 644 "$work/completions/zsh" "$root/usr/share/zsh/vendor-completions/_weir"
install -D -m 644 "$work/completions/fish" "$root/usr/share/fish/vendor_completions.d/weir.fish"

for unit in packaging/*.service; do
    install -D -m 644 "$unit" "$root/lib/systemd/system/${unit##*/}"
done

# The pages as in the repository, so that links between them hold; others lead to the repository.
install -D -m 644 packaging/copyright "$doc/copyright"
for page in README.md docs/*.md docs/*/* examples/*; do
    install -D -m 644 "$page" "$doc/$page"
done
repository=https://github.com/weir-fw/weir/blob/main
outside='(crates|studies|testdata)(/[^)]*)?\)|(ARCHITECTURE|CHANGELOG|CONTRIBUTING)\.md|LICENSE'
find "$doc" -name '*.md' -exec \
    sed -E -i "s#\\]\\((\\.\\./)*($outside)#]($repository/\\2#g" {} +
{
    printf 'weir (%s) unstable; urgency=medium\n\n' "$version"
    printf '  * See https://github.com/weir-fw/weir/blob/main/CHANGELOG.md.\n\n'
    printf ' -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$date")"
} | gzip -9n >"$doc/changelog.gz"

# dpkg-shlibdeps reads a source package's control file.
mkdir -p "$work/source/debian"
printf 'Source: weir\n\nPackage: weir\nArchitecture: any\n' >"$work/source/debian/control"
libraries=$(cd "$work/source" && dpkg-shlibdeps -O -e "$root/usr/bin/weir" |
    sed -n 's/^shlibs:Depends=//p')

mkdir -p "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: weir
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Depends: $libraries
Recommends: ipset, iptables, nftables
Suggests: prometheus-node-exporter
Section: net
Priority: optional
Homepage: https://github.com/weir-fw/weir
Description: compile, prove and apply large firewall rulesets
 A packet filter evaluates its rules one after another, so that every rule
 makes every packet slower. weir rewrites rulesets of iptables to chains that
 form a tree, to sets, or to nftables, proves that they accept and drop the
 same packets, and applies them atomically with their counters kept.
 .
 It also finds rules that never match, reviews changes of a ruleset packet by
 packet, tests rulesets against policies, and measures firewalls.
CONTROL
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -print0 | xargs -0 touch --no-dereference --date="@$date"

mkdir -p "$target/debian"
package=$target/debian/weir_${version}_$architecture.deb
SOURCE_DATE_EPOCH=$date dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
printf '%s\n' "$package"
