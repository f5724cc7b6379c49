# Reading and changing what is in force.

# Of the tables in $2, those that this namespace has: the names in file $1. The others have no
# rules, and looking at them by iptables would make them.
there() {
    [ -r "$1" ] || return 0
    found=
    while read -r name; do
        case " $2 " in
        *" $name "*) found="$found$name " ;;
        esac
    done <"$1"
    printf '%s' "${found% }"
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
        printf 'COMMIT\n# Completed\n'
    done
}

# The tables $3 with their counters, by the program $1; $2 as of `there`.
read_tables() {
    for table in $3; do
        if [ -n "$(there "$2" "$table")" ]; then
            "$1" -c -t "$table" || return
        else
            emptied "$table"
        fi
    done
}

# The nft tables of weir that are in force, as ip:weir_filter, copies included.
weir_tables() {
    # Without nft, or in a kernel without nf_tables, there are none; where some were loaded, they
    # must be found.
    list=$("$NFT" list tables 2>/dev/null) || [ -z "$uses_nft" ] || return
    printf '%s\n' "$list" | awk '$1 == "table" && ($2 == "ip" || $2 == "ip6") &&
        $3 ~ /^weir_(old_|new_)?(raw|mangle|nat|filter|security)$/ { print $2 ":" $3 }'
}

read_nft() {
    for table in "$@"; do
        "$NFT" list table "${table%:*}" "${table#*:}" || return
    done
}

# The nft commands that delete tables, given as ip:weir_filter.
deletions() {
    for table in "$@"; do
        printf 'delete table %s %s\n' "${table%:*}" "${table#*:}"
    done
}

# The nft text of a file with `old_` or `new_` in the names of its tables: copies, which can be in
# force beside the tables themselves.
as_copies() {
    sed -e "s/^create table \(ip6*\) weir_/create table \1 weir_$2_/" \
        -e "s/^table \(ip6*\) weir_/table \1 weir_$2_/" "$1" || printf 'incomplete\n'
}

# The nft commands that give the policy $1 to all base chains of a listing that drop by policy.
policies() {
    awk -v policy="$1" '
        /^table / { table = $2 " " $3 }
        /^\tchain / { chain = $2 }
        /^\t\ttype .* policy drop;/ { print "chain " table " " chain " { policy " policy "; }" }'
}

# Takes nft tables away. The kernel removes rules, chains and policies one after the other, so
# that for some microseconds a chain without rules drops what its rules accepted. Therefore the
# policies go first; by now other tables drop what must be dropped.
remove_nft() {
    listing=$("$NFT" list chains) || return
    printf '%s\n' "$listing" | awk -v tables=" $* " '
        /^table / { ours = index(tables, " " $2 ":" $3 " ") } ours' | policies accept |
        "$NFT" -f - || return
    deletions "$@" | "$NFT" -f -
}

change_iptables() {
    if [ -s "$1.iptables" ]; then
        "$IPTABLES_RESTORE" -w 10 -c <"$1.iptables" || return
    fi
    if [ -s "$1.ip6tables" ]; then
        "$IP6TABLES_RESTORE" -w 10 -c <"$1.ip6tables" || return
    fi
}

# Replaces nft tables by those of the file $1/$2.nft, and iptables tables in between. The two may
# not have the same hooks in nft, and a new chain of nft gets its policy some microseconds after
# its rules, when the old chain may be gone (nf_tables_commit). Therefore copies of the new tables
# are in force as long as anything changes.
change_by_copies() {
    target=$1/$2
    split_tables "$2" || return
    if [ -n "$copies" ]; then
        # An interrupted change left them, perhaps without their policies.
        as_copies "$target.nft" "$2" | policies drop | "$NFT" -f - || return
    else
        as_copies "$target.nft" "$2" | "$NFT" -f - || return
    fi
    change_iptables "$target" || return
    if [ -n "$others" ]; then
        remove_nft $others || return
    fi
    "$NFT" -f "$target.nft" || return
    split_tables "$2" || return
    remove_nft $copies
}

# Sets $copies to the tables that are copies (`old` or `new`), and $others to the other ones.
split_tables() {
    copies=
    others=
    present=$(weir_tables) || return
    for table in $present; do
        case $table in
        *:weir_"$1"_*) copies="$copies $table" ;;
        *) others="$others $table" ;;
        esac
    done
}

# Replaces what is in force by the files $1/$2.*, `old` or `new`. iptables and nft cannot change in
# one transaction; a packet traverses both rulesets in between, never none: nothing goes before all
# that stands for it has come.
change_to() {
    target=$1/$2
    present=$(weir_tables) || return
    if [ ! -s "$target.nft" ]; then
        change_iptables "$target" || return
        if [ -n "$present" ]; then
            remove_nft $present || return
        fi
    elif [ -n "$present" ]; then
        change_by_copies "$1" "$2" || return
    else
        "$NFT" -f "$target.nft" || return
        change_iptables "$target" || return
    fi
}

# Removes the sets that a load created, as far as they are there: the last first, since a list
# holds on to its members.
destroy_created() {
    [ -s "$1/created" ] || return 0
    names=$("$IPSET" list -n) || return
    doomed=$({ printf '%s\n\n' "$names" && cat -- "$1/created"; } | awk '
        !ours && $0 == "" { ours = 1; next }
        !ours { there[$0] = 1; next }
        $0 in there { doomed[n++] = $0 }
        END { while (n > 0) print "destroy " doomed[--n] }')
    [ -n "$doomed" ] || return 0
    printf '%s\n' "$doomed" | "$IPSET" restore 2>/dev/null && return
    printf '%s\n' "$doomed" | while IFS= read -r line; do
        printf '%s\n' "$line" | "$IPSET" restore 2>/dev/null || :
    done
    names=$("$IPSET" list -n) || return
    { printf '%s\n\n' "$names" && printf '%s\n' "$doomed"; } | awk '
        !ours && $0 == "" { ours = 1; next }
        !ours { there[$0] = 1; next }
        $2 in there { print $2 }' | while IFS= read -r name; do
        say "set $name is in use by something else and was left"
    done
}

# A set that is there as long as a load or an unload changes anything. The number of a namespace that is gone can be
# given to a new one; sets of the same names there are not those that were created.
has_own_mark() {
    [ -s "$1/created" ] || return 1
    read -r own_mark <"$1/created"
    "$IPSET" list -n | grep -Fqx -e "$own_mark"
}

make_own_mark() {
    [ -s "$1/created" ] || return 0
    read -r own_mark <"$1/created"
    printf 'create %s hash:ip maxelem 1\n' "$own_mark" | "$IPSET" -exist restore
}

# The ipset text of sets, given as text of `ipset save`, as text that replaces what the sets hold:
# each is filled under another name, and the two are swapped.
replacing() {
    awk '$1 == "create" {
            finish(); name = $2; print; $2 = name "~"; print; print "flush " $2; next
        }
        $1 == "add" { $2 = $2 "~"; print }
        END { finish() }
        function finish() {
            if (name != "") { print "swap " name "~ " name; print "destroy " name "~" }
        }' "$1"
}

# Puts back the ruleset that an entry holds.
put_back() {
    change_to "$1" old && put_sets_back "$1"
}

put_sets_back() {
    if [ -s "$1/old.sets" ]; then
        replacing "$1/old.sets" | "$IPSET" -exist restore || return
    fi
    destroy_created "$1"
}

# Whether what is in force is what an entry saved. With `or_more`, other programs may have added to
# it.
holds_old() {
    or_more=${2-}
    tables=$(about "$1" v4_tables)
    emptied=$(about "$1" v4_emptied)
    holds "$1/old.iptables" read_tables "$IPTABLES_SAVE" /proc/net/ip_tables_names \
        "$tables${emptied:+ $emptied}" || return
    tables=$(about "$1" v6_tables)
    emptied=$(about "$1" v6_emptied)
    holds "$1/old.ip6tables" read_tables "$IP6TABLES_SAVE" /proc/net/ip6_tables_names \
        "$tables${emptied:+ $emptied}" || return
    present=$(weir_tables) || return
    holds "$1/old.nft" read_nft $present
}

# Whether nothing that an entry is about was touched. Of sets, and of a load over itself, only the
# counters may tell.
is_untouched() {
    [ ! -s "$1/old.sets" ] && [ "$(about "$1" kind)" = load ] && holds_old "$1"
}

# Writes the output of a command that shows counters into a file of $entry, and sees that all of it
# is there: iptables-save and nft do not notice that a disk is full.
keep_counting() {
    kept=$entry/$1
    shift
    for _ in 1 2 3 4 5; do
        "$@" >"$kept" || return
        sum=$(steady <"$kept" | sha256sum) && [ -n "$sum" ] || return
        [ "$sum" != "$("$@" | steady | sha256sum)" ] || return 0
        # Other programs change rules, too.
    done
    return 1
}

# Whether a command prints what the file $1 holds, counters aside.
holds() {
    saved=$1
    shift
    {
        steady <"$saved"
        printf '# now\n'
        "$@" | steady
    } | awk -v or_more="$or_more" '
        $0 == "# now" { now = 1; next }
        !now { lines[$0]++; next }
        { lines[$0]-- }
        END { for (l in lines) if (lines[l] > 0 || (lines[l] < 0 && !or_more)) exit 1 }'
}

# Without what changes from one moment to the next: dates, counters, what is used up.
steady() {
    sed -e '/^#/d' -e 's/\[[0-9]*:[0-9]*\]//' -e 's/packets [0-9]* bytes [0-9]*//g' \
        -e 's/ used [0-9]* [a-z]*//g' -e 's/ expires [0-9a-z]*//g'
}

# Whether table $3 holds the empty chain that names artefact $4; $1 and $2 as of read_tables.
has_mark() {
    [ -n "$(there "$2" "$3")" ] || return 1
    "$1" -t "$3" | awk -v mark=":weir:$4 " '
        index($0, mark) == 1 { found = 1 }
        /^# Completed/ { whole = 1 }
        END { exit whole ? !found : 2 }' && return
    [ $? -eq 1 ] || die "cannot read table $3 by $1"
    return 1
}

# The tables of an entry that hold rules of somebody else, as iptables:filter: not those that it
# saved, and not those of its artefact.
replaced() {
    replaced_of iptables "$IPTABLES_SAVE" /proc/net/ip_tables_names "$1" \
        "$(about "$1" v4_tables) $(about "$1" v4_emptied)" &&
        replaced_of ip6tables "$IP6TABLES_SAVE" /proc/net/ip6_tables_names "$1" \
            "$(about "$1" v6_tables) $(about "$1" v6_emptied)"
}

# The same of one family: $1 names it; $2 and $3 as of read_tables, of the tables $5 of entry $4.
replaced_of() {
    tables=$(there "$3" "$5")
    [ -n "$tables" ] || return 0
    {
        steady <"$4/old.$1"
        printf '# now\n'
        { read_tables "$2" "$3" "$tables" || printf 'failed\n'; } | steady
    } | awk -v family="$1" -v mark=":weir:$(about "$4" id) " '
        $0 == "# now" { now = 1; next }
        $0 == "failed" { failed = 1; exit }
        /^\*/ { table = substr($0, 2) }
        { lines[table, $0] += now ? 1 : -1 }
        now && (/^ ?-A / || /^:[A-Z]* DROP/) { acts[table] = 1 }
        now && index($0, mark) == 1 { marked[table] = 1 }
        END {
            if (failed) exit 1
            for (l in lines) if (lines[l] != 0) { split(l, key, SUBSEP); differs[key[1]] = 1 }
            for (t in acts) if (differs[t] && !marked[t]) print family ":" t
        }' || die "cannot read the tables of $1 by $2"
}

# Keeps a copy of what somebody else loaded into the tables of an entry that is put back.
keep_replaced() {
    lost=$(replaced "$1") || exit
    [ -n "$lost" ] || return 0
    choose_aside
    mkdir -m 700 -- "$aside" && entry=$aside &&
        keep_counting old.iptables read_tables "$IPTABLES_SAVE" /proc/net/ip_tables_names \
            "$(printf '%s\n' "$lost" | sed -n 's/^iptables://p')" &&
        keep_counting old.ip6tables read_tables "$IP6TABLES_SAVE" /proc/net/ip6_tables_names \
            "$(printf '%s\n' "$lost" | sed -n 's/^ip6tables://p')" &&
        flush "$aside/old.iptables" "$aside/old.ip6tables" "$aside" "$WEIR_STATE" || {
        rm -rf -- "$aside" || :
        die "somebody replaced $(in_words $lost), and no copy of that can be written to $aside:" \
            "is the disk full?"
    }
    say "somebody replaced $(in_words $lost); a copy of it is kept: $(restoring "$aside")"
}

# Tables as `replaced` prints them.
in_words() {
    words=
    for table in "$@"; do
        words="${words:+$words, }table ${table#*:} of ${table%:*}"
    done
    printf '%s' "$words"
}

# Whether all of an entry's artefact is in the kernel, and nothing else of weir.
is_whole() {
    nft_there=$(weir_tables) || return
    [ "$(printf '%s\n' $nft_there | sort)" = \
        "$(printf '%s\n' $(about "$1" nft_tables) | sort)" ] || return
    artefact=$(about "$1" id)
    for table in $(about "$1" v4_tables); do
        has_mark "$IPTABLES_SAVE" /proc/net/ip_tables_names "$table" "$artefact" || return
    done
    for table in $(about "$1" v6_tables); do
        has_mark "$IP6TABLES_SAVE" /proc/net/ip6_tables_names "$table" "$artefact" || return
    done
    # Of the tables that were emptied, the mark may be gone (iptables -X), as long as no rules came.
    filled=$(
        replaced_of iptables "$IPTABLES_SAVE" /proc/net/ip_tables_names "$1" \
            "$(about "$1" v4_emptied)" &&
            replaced_of ip6tables "$IP6TABLES_SAVE" /proc/net/ip6_tables_names "$1" \
                "$(about "$1" v6_emptied)"
    ) || return
    [ -z "$filled" ]
}

# Whether rules of an entry's artefact are in the kernel. The number of a namespace that is gone
# can be given to a new one, and rules can be replaced by hand: then what the entry holds is not
# what was in force before.
is_in_force() {
    artefact=$(about "$1" id)
    for table in $(about "$1" v4_tables) $(about "$1" v4_emptied); do
        if has_mark "$IPTABLES_SAVE" /proc/net/ip_tables_names "$table" "$artefact"; then
            return
        fi
    done
    for table in $(about "$1" v6_tables) $(about "$1" v6_emptied); do
        if has_mark "$IP6TABLES_SAVE" /proc/net/ip6_tables_names "$table" "$artefact"; then
            return
        fi
    done
    # An artefact without tables changes no packet's way.
    [ -n "$(about "$1" v4_tables)$(about "$1" v6_tables)$(about "$1" nft_tables)" ] || return 0
    [ -n "$(about "$1" nft_tables)" ] || return
    present=$(weir_tables) || die "cannot list the nft tables by $NFT"
    [ -n "$present" ]
}
