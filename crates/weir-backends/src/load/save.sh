# Saving what is in force, and preparing what comes, before the first change.

# Writes the output of a command into a file of the new entry, and sees that all of it is there:
# iptables-save, nft and ipset do not notice that a disk is full.
keep() {
    kept=$entry/$1
    shift
    "$@" >"$kept" || return
    "$@" | cmp -s - "$kept"
}

# The same for what has counters.
keep_counting() {
    kept=$entry/$1
    shift
    "$@" >"$kept" || return
    sum=$(steady <"$kept" | sha256sum) && [ -n "$sum" ] &&
        [ "$sum" = "$("$@" | steady | sha256sum)" ]
}

# Without what changes from one moment to the next: dates, counters, what is used up.
steady() {
    sed -e '/^#/d' -e 's/\[[0-9]*:[0-9]*\]//' -e 's/packets [0-9]* bytes [0-9]*//' \
        -e 's/ used [0-9]* [a-z]*//' -e 's/ expires [0-9a-z]*//g'
}

count() {
    printf '%s\n' "$#"
}

# A save of iptables is whole if each table has its last line.
save_tables() {
    [ -n "$4" ] || return 0
    keep_counting "old.$1" read_tables "$2" "$3" "$4" &&
        [ "$(grep -c '^# Completed' "$entry/old.$1")" -eq "$(count $4)" ] ||
        die "the $1 tables could not be saved whole below $WEIR_STATE: is the disk full?"
}

save_nft() {
    present=$(weir_tables) || die "cannot list the nft tables by $NFT"
    [ -n "$present" ] || return 0
    keep_counting old.nft read_nft $present &&
        [ "$(grep -c '^}$' "$entry/old.nft")" -eq "$(count $present)" ] ||
        die "the nft tables could not be saved whole below $WEIR_STATE: is the disk full?"
}

# The lines of an ipset file whose set is named in the file $1, or (`not`) is not.
lines_of_sets() {
    awk -v want="${3:-named}" 'FILENAME == ARGV[1] { names[$0] = 1; next }
        ($2 in names) == (want == "named")' "$1" "$2"
}

own_names() {
    awk '$1 == "create" { print $2 }' "$here/weir.ipset"
}

names_to_create() {
    awk 'FILENAME == ARGV[1] { had[$0] = 1; next } !($0 in had)' \
        "$entry/had" "$here/names.ipset"
}

# Sets of the user's that are there are taken as they are, if they are of the same kind.
existing_user_sets() {
    lines_of_sets "$entry/had" "$here/user.ipset" | awk '$1 == "create"'
}

own_sets() {
    "$IPSET" save | lines_of_sets "$entry/own" -
}

# The weir.ipset to load: counters begin at zero again, as those of the tables do.
zeroed_sets() {
    awk '$1 == "create" { counts = / counters( |$)/ }
        { print $0 ($1 == "add" && counts ? " packets 0 bytes 0" : "") }' "$here/weir.ipset"
}

# Of a load over itself, the sets with their counters; as many elements as the kernel says.
save_own_sets() {
    keep own own_names && keep_counting old.sets own_sets ||
        die "the sets could not be saved whole below $WEIR_STATE: is the disk full?"
    elements=$(grep -c '^add ' "$entry/old.sets") || :
    listed=$("$IPSET" -t list | awk 'FILENAME == ARGV[1] { own[$0] = 1; next }
        $1 == "Name:" { name = $2 } /^Number of entries:/ && name in own { n += $4 }
        END { print n + 0 }' "$entry/own" -)
    [ "$elements" = "$listed" ] || die "$elements of $listed elements of the sets were saved"
}

prepare_sets() {
    full="the sets could not be prepared below $WEIR_STATE: is the disk full?"
    keep had "$IPSET" list -n || die "$full"
    existing=$(existing_user_sets)
    if [ -n "$existing" ]; then
        printf '%s\n' "$existing" | "$IPSET" -exist restore ||
            die "a set of the ruleset is there already and of another type:" \
                "rename it or destroy it"
    fi
    keep created names_to_create || die "$full"
    keep new.user lines_of_sets "$entry/had" "$here/user.ipset" not || die "$full"
    if [ "$kind" = reload ]; then
        save_own_sets
        keep new.own zeroed_sets || die "$full"
    else
        keep new.own cat -- "$here/weir.ipset" || die "$full"
    fi
}

# The iptables text to load: rules from the file $1, if there are any, and the tables that nft
# stands for, emptied.
new_tables() {
    if [ -n "$2" ]; then
        cat -- "$here/$1" && printf '\n' || return
    fi
    emptied $3
}

prepare_new() {
    full="the new ruleset could not be prepared below $WEIR_STATE: is the disk full?"
    if [ -n "$v4_tables$v4_emptied" ]; then
        keep new.iptables new_tables iptables.rules "$v4_tables" "$v4_emptied" || die "$full"
    fi
    if [ -n "$v6_tables$v6_emptied" ]; then
        keep new.ip6tables new_tables ip6tables.rules "$v6_tables" "$v6_emptied" || die "$full"
    fi
    if [ -n "$nft_tables" ]; then
        keep new.nft cat -- "$here/ruleset.nft" || die "$full"
    fi
}

description() {
    printf '%s\n' "kind=$kind" "id=$id" "form=$form" "boot=$boot" "namespace=$namespace" \
        "v4_tables=$v4_tables" "v6_tables=$v6_tables" "nft_tables=$nft_tables" "sets=$sets" \
        "v4_emptied=$v4_emptied" "v6_emptied=$v6_emptied" "directory=$directory"
}

flush_entry() (
    set +f
    flush "$entry"/* "$entry"
)

digests() {
    cd -P -- "$entry" && sha256sum about old.iptables old.ip6tables old.nft old.sets created
}

# Writes the new entry, all but its mark, to the disk. Nothing is changed before.
save() {
    entry=$state/new
    mkdir -- "$entry" || die "cannot write to $state: is the disk full?"
    for file in old.iptables old.ip6tables old.nft old.sets created; do
        : >"$entry/$file" || die "cannot write to $entry: is the disk full?"
    done
    save_tables iptables "$IPTABLES_SAVE" /proc/net/ip_tables_names \
        "$v4_tables${v4_emptied:+ $v4_emptied}"
    save_tables ip6tables "$IP6TABLES_SAVE" /proc/net/ip6_tables_names \
        "$v6_tables${v6_emptied:+ $v6_emptied}"
    save_nft
    if [ -n "$sets" ]; then
        prepare_sets
    fi
    prepare_new
    keep about description && keep digests digests && : >"$entry/loading" &&
        flush_entry || die "cannot write all of $entry: is the disk full?"
}

