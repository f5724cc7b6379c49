# Keep what is in force, then load: all or nothing.
need readlink coreutils
if [ -n "$v4_tables" ]; then
    need "$IPTABLES_RESTORE" iptables
    need "$IPTABLES_SAVE" iptables
fi
if [ -n "$v6_tables" ]; then
    need "$IP6TABLES_RESTORE" iptables
    need "$IP6TABLES_SAVE" iptables
fi
# Tables that nft stands for are emptied where they are; the kernel would make them if asked.
if [ -n "$v4_emptied" ]; then
    v4_emptied=$(there /proc/net/ip_tables_names "$v4_emptied")
fi
if [ -n "$v6_emptied" ]; then
    v6_emptied=$(there /proc/net/ip6_tables_names "$v6_emptied")
fi
if [ -n "$v4_emptied" ]; then
    need "$IPTABLES_RESTORE" iptables
    need "$IPTABLES_SAVE" iptables
fi
if [ -n "$v6_emptied" ]; then
    need "$IP6TABLES_RESTORE" iptables
    need "$IP6TABLES_SAVE" iptables
fi
if [ -n "$sets" ]; then
    need "$IPSET" ipset
    need awk mawk
fi
if [ -n "$nft_tables" ]; then
    need "$NFT" nftables
fi

fresh=$state.new-$$
mkdir -p -- "$fresh"
changed=
undo() {
    status=$?
    trap - EXIT HUP INT TERM
    set +e
    back=yes
    if [ -n "$changed" ]; then
        restore_tables "$fresh" || back=
        if [ -s "$fresh/created" ]; then
            destroy_sets "$fresh/created" || back=
        fi
        if [ -s "$fresh/sets" ]; then
            "$IPSET" -exist restore <"$fresh/sets" || back=
        fi
    fi
    if [ -n "$back" ]; then
        printf '%s: nothing was changed\n' "${0##*/}" >&2
        rm -rf -- "$fresh"
    else
        printf '%s: what was in force could not all be put back; it is in %s\n' \
            "${0##*/}" "$fresh" >&2
    fi
    [ "$status" -ne 0 ] || status=1
    exit "$status"
}
trap undo EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# What is in force now, of all that will be touched.
for table in $v4_tables $v4_emptied; do
    "$IPTABLES_SAVE" -c -t "$table" >>"$fresh/iptables"
done
for table in $v6_tables $v6_emptied; do
    "$IP6TABLES_SAVE" -c -t "$table" >>"$fresh/ip6tables"
done
# An artefact that is in force may stand in nft tables that this one does not have.
nft_gone=
if [ -n "$in_force" ] && command -v "$NFT" >/dev/null 2>&1; then
    for table in $("$NFT" list tables |
        sed -n 's/^table \(ip6*\) \(weir_[a-z]*\)$/\1:\2/p'); do
        case " $nft_tables " in
        *" $table "*) ;;
        *) nft_gone="$nft_gone $table" ;;
        esac
    done
fi
nft_replaced=
for table in $nft_tables $nft_gone; do
    # The line makes the table where it is not there, so that the next can remove it.
    printf 'table %s %s {}\ndelete table %s %s\n' \
        "${table%:*}" "${table#*:}" "${table%:*}" "${table#*:}" >>"$fresh/nft"
    if "$NFT" list table "${table%:*}" "${table#*:}" >>"$fresh/nft" 2>/dev/null; then
        nft_replaced="$nft_replaced $table"
    fi
done

# The number of a namespace that is gone may be given to another: what is said to be in force must
# be found in the kernel, by its mark (an empty chain) or by its nft tables.
if [ -n "$in_force" ] && [ -z "$nft_gone" ]; then
    found=
    for file in "$fresh/iptables" "$fresh/ip6tables"; do
        if [ -s "$file" ] && grep -q "^:weir:$in_force " "$file"; then
            found=yes
        fi
    done
    if [ -s "$fresh/nft" ] && grep -q '^table .* {$' "$fresh/nft"; then
        found=yes
    fi
    if [ -z "$found" ]; then
        in_force=
    fi
fi

if [ -n "$sets" ]; then
    "$IPSET" list -n >"$fresh/had"
    add=$here/user.ipset
    if [ -s "$fresh/had" ]; then
        # The user's sets are made only where they are not; one that is there must be alike.
        add=$fresh/add
        awk 'FILENAME == ARGV[1] { had[$0] = 1; next } !($2 in had)' \
            "$fresh/had" "$here/user.ipset" >"$add"
        awk 'FILENAME == ARGV[1] { had[$0] = 1; next } $1 == "create" && ($2 in had)' \
            "$fresh/had" "$here/user.ipset" >"$fresh/alike"
        if [ -s "$fresh/alike" ]; then
            "$IPSET" -exist restore <"$fresh/alike" || die "a set of that name is of another type"
        fi
        awk 'FILENAME == ARGV[1] { had[$0] = 1; next } !($0 in had)' \
            "$fresh/had" "$here/names.ipset" >"$fresh/created"
    else
        while IFS= read -r name; do
            printf '%s\n' "$name"
        done <"$here/names.ipset" >"$fresh/created"
    fi
    again=
    if [ -s "$fresh/had" ] && [ "$in_force" = "$id" ]; then
        # The same artefact again: its sets hold counts that an undo must bring back.
        again=yes
        "$IPSET" save >"$fresh/all"
        awk 'FILENAME == ARGV[1] { own[$0] = 1; next } $2 in own' \
            "$here/names.ipset" "$fresh/all" >"$fresh/sets"
    fi
    changed=yes
    if [ -s "$add" ]; then
        "$IPSET" restore <"$add"
    fi
    if [ -n "$again" ]; then
        # Counters begin at zero again, as those of the tables do.
        awk '$1 == "create" { counts = / counters( |$)/ }
            { print $0 ($1 == "add" && counts ? " packets 0 bytes 0" : "") }' "$here/weir.ipset" |
            "$IPSET" -exist restore
    elif [ -s "$here/weir.ipset" ]; then
        "$IPSET" -exist restore <"$here/weir.ipset"
    fi
fi

changed=yes
# nft before iptables: for a moment a packet meets both, never none.
if [ -n "$nft_tables" ] && [ -n "$nft_replaced" ]; then
    {
        deletions $nft_replaced
        cat -- "$here/ruleset.nft"
    } | "$NFT" -f -
elif [ -n "$nft_tables" ]; then
    "$NFT" -f "$here/ruleset.nft"
fi
if [ -n "$v4_tables" ]; then
    "$IPTABLES_RESTORE" -w 10 <"$here/iptables.rules"
fi
if [ -n "$v6_tables" ]; then
    "$IP6TABLES_RESTORE" -w 10 <"$here/ip6tables.rules"
fi
if [ -n "$nft_gone" ] && [ -z "$nft_tables" ]; then
    deletions $nft_gone | "$NFT" -f -
fi
if [ -n "$v4_emptied" ]; then
    emptied $v4_emptied | "$IPTABLES_RESTORE" -w 10
fi
if [ -n "$v6_emptied" ]; then
    emptied $v6_emptied | "$IP6TABLES_RESTORE" -w 10
fi

if [ "$in_force" = "$id" ] && [ -d "$state" ]; then
    # What was there before the first load is what unload.sh puts back.
    if [ -s "$fresh/created" ]; then
        cat "$fresh/created" >>"$state/created"
    fi
    rm -rf -- "$fresh"
else
    printf '%s\n' "$in_force" >"$fresh/previous"
    if [ -e "$state" ]; then
        rm -rf -- "$state"
    fi
    mv -- "$fresh" "$state"
    printf '%s\n' "$id" >"$current"
fi
trap - EXIT HUP INT TERM
printf 'loaded %s %s; unload.sh puts back what was in force\n' "$form" "$id"
