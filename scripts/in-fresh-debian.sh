#!/bin/sh
# Runs a command on a clone of this repository in a minimal Debian 12, as a new machine has it.
#
#   scripts/in-fresh-debian.sh make test
#
# Needs root and debootstrap. The clone has what is committed. Cargo, its registry and the toolchain
# are those of this machine; everything else must be installed by what the command runs. The system
# is made once in ${WEIR_FRESH:-/var/tmp/weir-fresh-debian}; remove that folder to begin anew.
set -eu

cd "$(dirname "$0")/.."

root="${WEIR_FRESH:-/var/tmp/weir-fresh-debian}"
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
rustup_home="${RUSTUP_HOME:-$HOME/.rustup}"

refuse() { printf 'in-fresh-debian: %s\n' "$*" >&2; exit 2; }

[ $# -gt 0 ] || refuse 'which command? For example: make test'
[ "$(id -u)" -eq 0 ] || refuse 'needs root: it changes its root folder'
command -v debootstrap >/dev/null 2>&1 || refuse 'needs debootstrap: apt-get install debootstrap'
[ -d "$cargo_home/bin" ] || refuse "no cargo in $cargo_home/bin"

if [ ! -e "$root/.made" ]; then
    debootstrap --variant=minbase --include=git,make,curl,ca-certificates \
        bookworm "$root" >"$root.log" 2>&1 || refuse "debootstrap failed: see $root.log"
    : >"$root/.made"
fi

rm -rf "$root/srv/weir"
git clone --quiet . "$root/srv/weir"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/opt/cargo" "$root/opt/rustup"

# All mounts live in a namespace of their own and go with it.
export root cargo_home rustup_home
exec unshare --mount sh -eu -c '
    # `ip netns exec` wants the root folder to be a mount of its own.
    mount --rbind "$root" "$root"
    cd "$root"
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t bpf bpf "$root/sys/fs/bpf" || true
    mount -t tmpfs tmpfs "$root/run"
    mount --bind "$cargo_home" "$root/opt/cargo"
    mount --bind "$rustup_home" "$root/opt/rustup"
    exec chroot "$root" /usr/bin/env -i \
        HOME=/srv PATH=/opt/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        CARGO_HOME=/opt/cargo RUSTUP_HOME=/opt/rustup \
        sh -c "cd /srv/weir && exec \"\$@\"" sh "$@"
' sh "$@"
