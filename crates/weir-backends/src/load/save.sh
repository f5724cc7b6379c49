# Saving what is in force, and preparing what comes, before the first change.

# Writes the output of a command into a file of the new entry, and sees that all of it is there:
# ipset does not notice that a disk is full.
keep() {
    kept=$entry/$1
    shift
    "$@" >"$kept" || return
    "$@" | cmp -s - "$kept"
}

count() {
    printf '%s\n' "$#"
}

# A save of iptables is whole if each table has its last line.
save_tables() {
    [ -n "$4" ] || return 0
    keep_counting "old.$1" read_tables "$2" "$3" "$4" &&
        [ "$(grep -c '^# Completed' "$entry/old.$1")" -eq "$(count $4)" ] ||
        die "the $1 tables could not be saved whole below $WEIR_STATE: the disk is full, or they keep changing"
    odd=$(odd_quotes "$entry/old.$1")
    [ -z "$odd" ] || die "$2 prints a rule that $5 cannot read, so unload.sh could not put it" \
        "back; change this rule first: $odd"
    failed=$("$5" --test -w 10 <"$entry/old.$1" 2>&1) || {
        [ "$?" -ne 4 ] || die "another program holds the xtables lock: $failed"
        die "$2 prints rules that $5 cannot read, so unload.sh could not put them back;" \
            "change them first: $failed"
    }
}

# The first rule with a quote that iptables-save did not write as one: in names of devices, say.
odd_quotes() {
    awk '{ rule = $0; gsub(/ "([^"\\]|\\.)*"/, "") } /-A / && /"/ { print rule; exit }' "$1"
}

save_nft() {
    present=$(weir_tables) || die "cannot list the nft tables by $NFT"
    [ -n "$present" ] || return 0
    keep_counting old.nft read_nft $present &&
        [ "$(grep -c '^}$' "$entry/old.nft")" -eq "$(count $present)" ] ||
        die "the nft tables could not be saved whole below $WEIR_STATE: the disk is full, or they keep changing"
}

# The lines of an ipset file whose set is named in the file $1, or (`not`) is not.
lines_of_sets() {
    awk -v want="${3:-named}" 'FILENAME == ARGV[1] { names[$0] = 1; next }
        ($2 in names) == (want == "named")' "$1" "$2"
}

# The names of the artefact's own sets. They hold its identity: nobody else makes sets so named.
own_names() {
    awk '$1 == "create" { print $2 }' "$source/weir.ipset"
}

own_names_here() {
    own_names | awk 'FILENAME == ARGV[1] { had[$0] = 1; next } $0 in had' "$entry/had" -
}

# Of the sets of the artefact, those that its unload destroys: none that were there, unless an
# entry that was set aside created them. Own ones that are there are filled under a second name.
names_to_create() {
    printf '%s\n' "$own_mark"
    {
        cat -- "$entry/had" && printf '\n' && cat -- "$entry/own" && printf '\n' &&
            created_before && printf '\n' && created_aside && printf '\n' &&
            cat -- "$source/names.ipset"
    } | awk '
        $0 == "" { part++; next }
        part == 0 { had[$0] = 1; next }
        part == 1 { own[$0] = 1; print $0 "~"; next }
        part == 2 { before[$0] = 1; next }
        part == 3 { aside[$0] = 1; next }
        !($0 in had) || ($0 in own && $0 in aside && !($0 in before))'
}

# The names that entries created that were set aside.
created_aside() (
    set +f
    for list in "$state".old/*/created "$state".*.old/*/created; do
        [ ! -f "$list" ] || cat -- "$list" || exit
    done
)

# The names that the entries of earlier loads created.
created_before() {
    number=1
    while [ -d "$state/$number" ]; do
        cat -- "$state/$number/created" || return
        number=$((number + 1))
    done
}

# Sets of the user's that are there are taken as they are, if they are of the same kind.
refuse_other_sets() {
    existing=$("$IPSET" list -n | awk '
        FILENAME != ARGV[2] { had[$0] = 1; next } $1 == "create" && $2 in had' \
        - "$source/user.ipset") || die "cannot list the sets by $IPSET"
    if [ -n "$existing" ]; then
        printf '%s\n' "$existing" | "$IPSET" -exist restore ||
            die "a set of the ruleset is there already, of another type or with other options" \
                "(maxelem, timeout, counters, …): rename it, destroy it, or compile with it"
    fi
}

# Sets with the names of the artefact's own that are there must be of the same kind: they are
# replaced, and put back.
refuse_other_own_sets() {
    second=$("$IPSET" list -n | awk '
        FILENAME != ARGV[2] { had[$0] = 1; next } $1 == "create" && ($2 "~") in had { print $2 "~" }' \
        - "$source/weir.ipset" | head -n 1) || die "cannot list the sets by $IPSET"
    [ -z "$second" ] || die "set $second is there, a name that load.sh needs for a moment:" \
        "ipset rename $second OTHER keeps it, ipset destroy $second removes it"
    existing=$("$IPSET" list -n | awk '
        FILENAME != ARGV[2] { had[$0] = 1; next } $1 == "create" && $2 in had' \
        - "$source/weir.ipset") || die "cannot list the sets by $IPSET"
    printf '%s\n' "$existing" | "$IPSET" -exist restore 2>/dev/null && return
    printf '%s\n' "$existing" | while IFS= read -r line; do
        printf '%s\n' "$line" | "$IPSET" -exist restore 2>/dev/null && continue
        name=${line#create }
        name=${name%% *}
        die "set $name is there already, of another type or with other options than the set of" \
            "that name in this artefact: ipset rename $name OTHER keeps it, ipset destroy $name" \
            "removes it"
    done || exit
}

own_sets() {
    "$IPSET" save | lines_of_sets "$entry/own" -
}

# The weir.ipset to load. Where its sets are there, they are replaced, and their counters begin at
# zero again, as those of the tables do.
new_own_sets() {
    if [ ! -s "$entry/own" ]; then
        cat -- "$source/weir.ipset"
        return
    fi
    awk '$1 == "create" { counts = / counters( |$)/ }
        { print $0 ($1 == "add" && counts ? " packets 0 bytes 0" : "") }' \
        "$source/weir.ipset" >"$entry/zeroed" && replacing "$entry/zeroed"
}

# The artefact's own sets that are there, with their counters; as many elements as the kernel says.
save_own_sets() {
    keep_counting old.sets own_sets ||
        die "the sets could not be saved whole below $WEIR_STATE: the disk is full, or they keep changing"
    elements=$(grep -c '^add ' "$entry/old.sets") || :
    listed=$("$IPSET" -t list | awk 'FILENAME == ARGV[1] { own[$0] = 1; next }
        $1 == "Name:" { name = $2 } /^Number of entries:/ && name in own { n += $4 }
        END { print n + 0 }' "$entry/own" -)
    [ "$elements" = "$listed" ] || die "$elements of $listed elements of the sets were saved"
}

prepare_sets() {
    full="the sets could not be prepared below $WEIR_STATE: is the disk full?"
    refuse_other_sets
    refuse_other_own_sets
    keep had "$IPSET" list -n && keep own own_names_here || die "$full"
    save_own_sets
    read -r own_mark </proc/sys/kernel/random/uuid
    own_mark=weir-loading-${own_mark%%-*}
    keep created names_to_create || die "$full"
    keep new.user lines_of_sets "$entry/had" "$source/user.ipset" not || die "$full"
    keep new.own new_own_sets || die "$full"
}

# The iptables text to load: rules from the file $1, if there are any, and the tables that nft
# stands for, emptied. The tables of an nft form are marked here: as long as the mark is there,
# nobody replaced them.
new_tables() {
    {
        if [ -n "$2" ]; then
            cat -- "$source/$1" && printf '\n'
        fi
        emptied $3
    } | awk -v mark="${nft_tables:+:weir:$id - [0:0]}" '
        index($0, ":weir:") == 1 && mark != "" { next }
        { print }
        /^\*/ && mark != "" { print mark }'
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
        keep new.nft cat -- "$source/ruleset.nft" || die "$full"
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

# Copies the artefact, which may be compiled anew meanwhile, and looks at the copies.
copy_files() {
    for file in manifest.json $files; do
        keep "$file" cat -- "$here/$file" ||
            die "cannot copy $here/$file to $entry: is the disk full?"
    done
    source=$entry
    check_files
}

# Copies of nft tables that no entry of this state accounts for.
refuse_stray_copies() {
    present=$(weir_tables) || die "cannot list the nft tables by $NFT"
    for table in $present; do
        case $table in
        *:weir_old_* | *:weir_new_*)
            die "nft table ${table%:*} ${table#*:} is a copy that an interrupted script left," \
                "and its state is not in $state: look at it, then" \
                "nft delete table ${table%:*} ${table#*:}"
            ;;
        esac
    done
}

# Writes the new entry, all but its mark, to the disk. Nothing is changed before.
save() {
    entry=$state/new
    mkdir -- "$entry" || die "cannot write to $state: is the disk full?"
    for file in old.iptables old.ip6tables old.nft old.sets created; do
        : >"$entry/$file" || die "cannot write to $entry: is the disk full?"
    done
    copy_files
    refuse_stray_copies
    save_tables iptables "$IPTABLES_SAVE" /proc/net/ip_tables_names \
        "$v4_tables${v4_emptied:+ $v4_emptied}" "$IPTABLES_RESTORE"
    save_tables ip6tables "$IP6TABLES_SAVE" /proc/net/ip6_tables_names \
        "$v6_tables${v6_emptied:+ $v6_emptied}" "$IP6TABLES_RESTORE"
    save_nft
    if [ -n "$sets" ]; then
        prepare_sets
    fi
    prepare_new
    (cd -P -- "$entry" && rm -f -- manifest.json $files)
    keep about description && keep digests digests && : >"$entry/loading" &&
        flush_entry || die "cannot write all of $entry: is the disk full?"
}

