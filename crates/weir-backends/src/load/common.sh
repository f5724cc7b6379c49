# Settings that a caller may have exported do not reach the commands below.
unset CDPATH
LC_ALL=C
export LC_ALL
# ipset asks the resolver's library to read each address, which looks for a new /etc/resolv.conf
# every time: more than half of what loading a large set takes. resolv.conf(5), no-reload.
RES_OPTIONS="${RES_OPTIONS:+$RES_OPTIONS }no-reload"
export RES_OPTIONS
umask 077
set -f
set +C
# A shell that inherited pipefail would take a search that ends at its first match for a failed one.
if (set +o pipefail) 2>/dev/null; then
    set +o pipefail
fi

# Descriptors that the caller closed would be given to the files that are opened here.
if [ -e /proc/self/fd ]; then
    [ -e /proc/self/fd/0 ] || exec </dev/null
    [ -e /proc/self/fd/1 ] || exec >/dev/null
    [ -e /proc/self/fd/2 ] || exec 2>/dev/null
fi

# Where weir apply keeps generations: its own folder, and the one that both are told of.
generation_states="/var/lib/weir ${WEIR_STATE:-}"

: "${IPTABLES_RESTORE:=iptables-legacy-restore}" "${IPTABLES_SAVE:=iptables-legacy-save}"
: "${IP6TABLES_RESTORE:=ip6tables-legacy-restore}" "${IP6TABLES_SAVE:=ip6tables-legacy-save}"
: "${IPSET:=ipset}" "${NFT:=nft}" "${WEIR_STATE:=/run/weir}"

script=${0##*/}
here=
namespace=
state=
uses_nft=

# Says something. What becomes of the text changes nothing: a pipe may be closed, a disk full.
say() (
    trap '' PIPE
    printf '%s: %s\n' "$script" "$*" >&2 || :
)

# The same for the last line, on standard output.
tell() (
    trap '' PIPE
    printf '%s\n' "$*" || :
)

die() {
    say "$@"
    exit 1
}

# A path as a word of a command that can be pasted.
quoted() {
    case $1 in
    *[!A-Za-z0-9_./:=@%+,-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
    *) printf '%s' "$1" ;;
    esac
}

usage_error() {
    say "$1; $script --help lists the options"
    exit 2
}

need() {
    command -v "$1" >/dev/null 2>&1 || die "needs $1, which is not installed ($2)"
}

find_here() {
    case $0 in
    */*) here=${0%/*}/ ;;
    *) here=./ ;;
    esac
    here=$(cd -P -- "$here" && pwd -P) || die "cannot find the folder of $0"
}

find_namespace() {
    namespace=$(readlink /proc/self/ns/net) || die "cannot tell the network namespace: mount /proc"
    namespace=${namespace#*[}
    namespace=${namespace%]}
}

# All that the scripts run, but for --check and for the tools of the rulesets.
need_common_tools() {
    for tool in awk:mawk cmp:diffutils find:findutils flock:util-linux grep:grep sed:sed; do
        need "${tool%:*}" "${tool#*:}"
    done
    for tool in cat cut head id mkdir mv readlink rm sha256sum sort sync tr; do
        need "$tool" coreutils
    done
}

# The kernel hides the tables of a namespace from all but its root, and a container may hide files.
need_root() {
    [ -r /proc/net/dev ] || die "cannot read /proc/net: mount /proc"
    for names in /proc/net/ip_tables_names /proc/net/ip6_tables_names; do
        [ ! -e "$names" ] || [ -r "$names" ] || die "cannot read $names: start $script as root"
    done
}

# The tool $1 of iptables-legacy, whose name begins with $2 ("iptables" or "ip6tables"). Versions
# before 1.8 name no variant and are legacy.
need_legacy() {
    need "$1" iptables
    case $("$1" --version) in
    *nf_tables*) die "$1 is iptables-nft; this artefact is for iptables-legacy" ;;
    "$2"*) ;;
    *) die "$1 is no tool of $2-legacy" ;;
    esac
}

need_tools_of() {
    if [ -n "$1" ]; then
        need_legacy "$IPTABLES_RESTORE" iptables
        need_legacy "$IPTABLES_SAVE" iptables
    fi
    if [ -n "$2" ]; then
        need_legacy "$IP6TABLES_RESTORE" ip6tables
        need_legacy "$IP6TABLES_SAVE" ip6tables
    fi
    if [ -n "$3" ]; then
        need "$IPSET" ipset
    fi
    if [ -n "$4" ]; then
        need "$NFT" nftables
        uses_nft=yes
    fi
}

# The tools that put an entry back.
need_tools_of_entry() {
    need_tools_of "$(about "$1" v4_tables)$(about "$1" v4_emptied)" \
        "$(about "$1" v6_tables)$(about "$1" v6_emptied)" "$(about "$1" sets)" \
        "$(about "$1" nft_tables)"
}

# The lock belongs to the network namespace itself, so that it is the same for scripts with
# another WEIR_STATE or in another mount namespace. It ends with the last process that holds
# descriptor 9: with this script, and with a tool that is still at work after a kill.
lock() {
    exec 9</proc/self/ns/net
    tries=0
    # The Korn shell gives descriptors above 2 only to whom they are named for.
    until flock -n 9 9<&9; do
        [ "$?" -eq 1 ] || die "cannot lock /proc/self/ns/net"
        if holder=$(lock_holder); then
            case $holder in
            *' of user '*) die "$holder holds the lock of this network namespace, and is not of" \
                "weir: end it" ;;
            *) die "$holder holds the lock of this network namespace: wait until it has ended" ;;
            esac
        fi
        # It ended in the meantime, or it cannot be seen from here.
        tries=$((tries + 1))
        [ "$tries" -lt 20 ] || die "a process of another PID namespace holds the lock" \
            "of this network namespace: wait until it has ended"
    done
}

# The process that holds the lock: the tools of a script have the descriptor, too, but their parent
# as well.
lock_holder() (
    set +f
    held="^lock:.*FLOCK.*:$namespace 0 EOF"
    set -- $(grep -rls "$held" /proc/[0-9]*/fdinfo | cut -d / -f 3 | sort -nu)
    for pid in "$@"; do
        parent=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$pid/status" 2>/dev/null)
        case " $* " in
        *" $parent "*) continue ;;
        esac
        command=$(tr '\0' ' ' <"/proc/$pid/cmdline") 2>/dev/null || continue
        [ -n "$command" ] || continue
        printf 'process %s (%s)' "$pid" "${command% }"
        # Everybody may open the file of the namespace; only root changes its ruleset.
        owner=$(sed -n 's/^Uid:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null)
        [ "${owner:-0}" -eq 0 ] || printf ' of user %s' "$owner"
        exit 0
    done
    exit 1
)
