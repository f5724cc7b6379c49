# What load.sh and unload.sh share: tools, state, and how tables are put back.
LC_ALL=C
export LC_ALL
# ipset asks the resolver's library to read each address, which looks for a new /etc/resolv.conf
# every time: more than half of what loading a large set takes. resolv.conf(5), no-reload.
RES_OPTIONS="${RES_OPTIONS:+$RES_OPTIONS }no-reload"
export RES_OPTIONS
umask 077

: "${IPTABLES_RESTORE:=iptables-legacy-restore}" "${IPTABLES_SAVE:=iptables-legacy-save}"
: "${IP6TABLES_RESTORE:=ip6tables-legacy-restore}" "${IP6TABLES_SAVE:=ip6tables-legacy-save}"
: "${IPSET:=ipset}" "${NFT:=nft}" "${WEIR_STATE:=/run/weir}"

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null 2>&1 || die "needs $1, which is not installed ($2)"
}

here=.
case $0 in
*/*) here=${0%/*} ;;
esac
here=$(cd -- "${here:-/}" && pwd -P)
namespace=$(readlink /proc/self/ns/net) || die "cannot tell the network namespace"
namespace=${namespace#*[}
namespace=${namespace%]}
state=$WEIR_STATE/$namespace-$id
current=$WEIR_STATE/$namespace-current
in_force=
if [ -f "$current" ]; then
    read -r in_force <"$current" || :
fi

# Of the tables in $2, those that this namespace has: the names in file $1.
there() {
    for table in $2; do
        if grep -qx "$table" "$1" 2>/dev/null; then
            printf '%s ' "$table"
        fi
    done
}

# The text of tables without rules, which let everything pass.
emptied() {
    for table in "$@"; do
        case $table in
        raw) chains='PREROUTING OUTPUT' ;;
        nat) chains='PREROUTING INPUT OUTPUT POSTROUTING' ;;
        mangle) chains='PREROUTING INPUT FORWARD OUTPUT POSTROUTING' ;;
        *) chains='INPUT FORWARD OUTPUT' ;;
        esac
        printf '*%s\n' "$table"
        for chain in $chains; do
            printf ':%s ACCEPT [0:0]\n' "$chain"
        done
        printf 'COMMIT\n'
    done
}

# The nft commands that delete tables, given as ip:weir_filter.
deletions() {
    for table in "$@"; do
        printf 'delete table %s %s\n' "${table%:*}" "${table#*:}"
    done
}

# Takes away the sets whose names are in a file, one a line, as far as they are there: the last
# first, since a list holds on to its members.
destroy_sets() {
    "$IPSET" list -n >"$1.there"
    awk 'FILENAME == ARGV[1] { there[$0] = 1; next } $0 in there { names[n++] = $0 }
        END { while (n > 0) print "destroy " names[--n] }' "$1.there" "$1" | "$IPSET" restore
}

# Puts back the tables that a folder of state holds.
restore_tables() {
    if [ -s "$1/iptables" ]; then
        "$IPTABLES_RESTORE" -w 10 -c <"$1/iptables" || return
    fi
    if [ -s "$1/ip6tables" ]; then
        "$IP6TABLES_RESTORE" -w 10 -c <"$1/ip6tables" || return
    fi
    if [ -s "$1/nft" ]; then
        "$NFT" -f "$1/nft" || return
    fi
}
