#!/bin/sh
# Installs what a fresh Debian lacks for building weir, running it and measuring.
#
# What is there already is left alone: a second run installs nothing and needs no network.
# Toolchains are not downloaded: cargo comes from rustup, by your own hand.
#
# With --test it also installs what only the tests need, among it an SSH server; with --deb, what
# `make deb` needs; with --look, a browser for `make look`.
set -eu

cd "$(dirname "$0")/.."

mode=${1:-}

say() { printf '%s\n' "$*"; }
refuse() { printf 'install-deps: %s\n' "$*" >&2; exit 2; }

# One line a package: the package, then what proves that it is there (a command, or file:PATTERN),
# then what it is for.
needed() {
    cat <<'LIST'
gcc            cmd:cc                            links the programs
libc6-dev      file:/usr/include/stdio.h         C headers
linux-libc-dev file:/usr/include/linux/bpf.h     kernel headers for the BPF programs
make           cmd:make                          builds the BPF library
pkg-config     cmd:pkg-config                    finds libelf and zlib
clang          cmd:clang                         compiles the BPF programs
libelf-dev     file:/usr/include/libelf.h        BPF object files
zlib1g-dev     file:/usr/include/zlib.h          BPF object files
iptables       cmd:iptables-legacy-restore       rulesets, legacy and nft variant
nftables       cmd:nft                           the nft form
ipset          cmd:ipset                         the ipset form
iproute2       cmd:ip                            namespaces, links, routes
ethtool        cmd:ethtool                       receive offload of the laboratory's links
procps         cmd:sysctl                        kernel settings inside namespaces
kmod           cmd:modprobe                      loads netfilter modules
LIST
    case $mode in
        --test) cat <<'LIST'
openssh-client cmd:ssh                           studies over two hosts
openssh-server cmd:sshd                          the tests of those: a host in a namespace
httperf        cmd:httperf                       clients of others in the laboratory
wrk            cmd:wrk                           clients of others in the laboratory
LIST
            ;;
        --deb) echo 'dpkg-dev cmd:dpkg-shlibdeps finds the libraries of the package' ;;
        --look) echo 'chromium any:chromium,chromium-headless-shell,google-chrome looks at pages' ;;
    esac
}

# True where a file that matches the path is there, also below a multiarch folder.
has_file() {
    [ -e "$1" ] && return 0
    for f in "${1%/*}"/*-linux-*/"${1##*/}"; do
        [ -e "$f" ] && return 0
    done
    return 1
}

has_command() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1
}

is_there() {
    case $1 in
        cmd:*) has_command "${1#cmd:}" ;;
        any:*) for name in $(printf '%s' "${1#any:}" | tr ',' ' '); do
            has_command "$name" && return 0
        done; return 1 ;;
        file:*) has_file "${1#file:}" ;;
    esac
}

# `1.89` of `rust-version = "1.89"` in the root manifest.
wanted_rust() {
    sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml | head -n 1
}

# True where version $1 is at least version $2 (major.minor).
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

check_cargo() {
    wanted=$(wanted_rust)
    command -v cargo >/dev/null 2>&1 || refuse "cargo is missing. Install Rust $wanted or later:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y
  . \"\$HOME/.cargo/env\""
    found=$(rustc --version | awk '{ print $2 }')
    at_least "$found" "$wanted" ||
        refuse "rustc is $found, weir needs $wanted or later: run 'rustup update stable'"
}

missing=$(needed | while read -r package proof reason; do
    is_there "$proof" || printf '%s\t%s\n' "$package" "$reason"
done)

if [ -n "$missing" ]; then
    say 'Missing on this machine:'
    printf '%s\n' "$missing" | while IFS='	' read -r package reason; do
        printf '  %-15s %s\n' "$package" "$reason"
    done
    packages=$(printf '%s\n' "$missing" | cut -f 1 | tr '\n' ' ')
    command -v apt-get >/dev/null 2>&1 || refuse "this is no Debian-like system (no apt-get):
install what these Debian packages hold, then run this again: $packages"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || refuse "not root and no sudo; as root run:
  apt-get install --no-install-recommends $packages"
        as_root=sudo
    fi
    say "Installing with apt-get: $packages"
    log=$(mktemp)
    # The list is split on purpose: one word a package.
    # shellcheck disable=SC2086
    if ! {
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get update &&
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y \
                --no-install-recommends $packages
    } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        refuse "apt-get failed; all it said is in $log"
    fi
    rm -f "$log"
    needed | while read -r package proof reason; do
        is_there "$proof" || refuse "$package was installed, but ${proof#*:} is still missing"
    done
    say 'Installed.'
fi

check_cargo
