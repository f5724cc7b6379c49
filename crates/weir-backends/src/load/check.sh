# What is looked at before anything is saved or changed.

# Looks at the files of the artefact in $source: they are this script's, and as they were compiled.
check_files() {
    manifest=$source/manifest.json
    [ -f "$manifest" ] || die "$manifest is missing: start load.sh in the folder of an artefact"
    compiled=$(tr ',' '\n' <"$manifest" | sed -n 's/.*"id": *"\([0-9a-f]*\)".*/\1/p' | head -n 1)
    [ "$compiled" = "$id" ] || die "the files of $here are of artefact ${compiled:-unknown}," \
        "and this is load.sh of $id: start the load.sh that was compiled with them"
    for file in $files; do
        [ -f "$source/$file" ] || die "$here/$file is missing: compile again"
    done
    check_contents
    [ -z "$allow_edited" ] || return 0
    if [ "$source" = "$here" ]; then
        set -- load.sh unload.sh $files
    else
        set -- $files
    fi
    digests=$(awk -F '"' -v files=" $* " '$2 == "name" { name = $4 }
        $2 == "sha256" && index(files, " " name " ") { print $4 "  " name }' "$manifest")
    [ "$(printf '%s\n' "$digests" | grep -c .)" -eq "$#" ] ||
        die "$manifest does not name all files: compile again"
    result=$(cd -P -- "$source" && printf '%s\n' "$digests" | sha256sum -c 2>/dev/null) && return
    edited=$(printf '%s\n' "$result" | sed -n 's/: FAILED.*//p' | head -n 1)
    die "$here/$edited was edited after it was compiled: load it as it is by --allow-edited," \
        "or make the change in the ruleset and compile that (the edit here is then lost)"
}

# Edited files, too, hold the tables and sets that this script saves, the chains that say which
# artefact is in force, and nothing else.
check_contents() {
    for file in $files; do
        case $file in
        iptables.rules) odd=$(odd_rules "$v4_tables" "$source/$file") ;;
        ip6tables.rules) odd=$(odd_rules "$v6_tables" "$source/$file") ;;
        ruleset.nft) odd=$(odd_nft "$source/$file") ;;
        *.ipset) odd=$(odd_sets "$source/$file") ;;
        esac
        [ -z "$odd" ] || die "$here/$file: $odd; load.sh saves what the compiled ruleset touches:" \
            "edit the ruleset, and compile it again"
    done
}

odd_rules() {
    mark=":weir:$id "
    # nft tables say by themselves that they are in force.
    [ -z "$nft_tables" ] || mark=
    awk -v tables="$1" -v mark="$mark" '
        BEGIN { n = split(tables, names, " "); for (i = 1; i <= n; i++) left[names[i]] = 1 }
        /^\*/ {
            table = substr($0, 2)
            if (!(table in left)) { print "table " table " was added"; exit }
            delete left[table]
        }
        mark != "" && index($0, mark) == 1 { marks++ }
        END {
            for (table in left) { print "table " table " is missing"; exit }
            if (mark != "" && marks != n) print "a line " mark "- [0:0] is missing"
        }' "$2" | head -n 1
}

# Commands stand outside of braces, whatever the line begins with.
odd_nft() {
    awk -v tables="$nft_tables" '
        BEGIN { n = split(tables, names, " "); for (i = 1; i <= n; i++) left[names[i]] = 1 }
        {
            line = $0
            gsub(/"[^"]*"/, "", line)
            sub(/#.*/, "", line)
        }
        depth == 0 && line ~ /[^ \t]/ {
            if (line !~ /^(create )?table ip6? [^ ;{}]+( \{)?$/) {
                print "line " NR " is outside of tables"
                exit
            }
            name = $1 == "create" ? $3 ":" $4 : $2 ":" $3
            if (!index(" " tables " ", " " name " ")) { print "table " name " was added"; exit }
            if ($1 == "create") delete left[name]
        }
        {
            if (line ~ /(^|[ \t;{}])include([ \t]|$)/) { print "line " NR " includes a file"; exit }
            while (gsub(/\{[^{}]*\}/, "", line)) { }
            closed = gsub(/\}/, "", line)
            # The line that ends a table holds nothing else.
            if (closed && closed >= depth && $0 != "}") {
                print "line " NR " is outside of tables"
                exit
            }
            depth += gsub(/\{/, "", line) - closed
        }
        END { for (table in left) print "table " table " is missing" }' "$1" | head -n 1
}

odd_sets() {
    [ "${1##*/}" != names.ipset ] || return 0
    awk 'FILENAME == ARGV[1] { names[$0] = 1; next }
        /^(#|$)/ { next }
        $1 != "create" && $1 != "add" { print "line " FNR " neither creates nor adds"; exit }
        !($2 in names) { print "set " $2 " was added"; exit }' "$source/names.ipset" "$1"
}

# Refuses to load beside rules of iptables-nft in the same tables: a packet would traverse both.
refuse_other_variant() {
    foreign=
    if command -v "$NFT" >/dev/null 2>&1; then
        foreign=$("$NFT" list tables 2>/dev/null) || foreign=
    fi
    for table in $v4_tables $v4_emptied; do
        refuse_beside ip "$table" iptables
    done
    for table in $v6_tables $v6_emptied; do
        refuse_beside ip6 "$table" ip6tables
    done
    for table in $nft_tables; do
        case $table in
        ip:*) refuse_beside ip "${table#ip:weir_}" iptables ;;
        *) refuse_beside ip6 "${table#ip6:weir_}" ip6tables ;;
        esac
    done
}

# weir apply would not know what this script replaces, and its rollback would undo it.
refuse_generation() {
    # The names of StateStore::find: the first process is in the network namespace of the host.
    folder=net-$namespace
    [ "$(readlink /proc/1/ns/net)" != "net:[$namespace]" ] || folder=host
    boot=$(cat /proc/sys/kernel/random/boot_id)
    for generation_state in $generation_states; do
        current=$generation_state/generations/$folder/current.json
        [ -r "$current" ] && grep -q "\"boot_id\": \"$boot\"" "$current" || continue
        generation=$(number_in "$current" generation)
        baseline=$(number_in "$current" baseline)
        [ -n "$generation" ] && [ "$generation" != "$baseline" ] || continue
        die "generation $generation of weir apply is in force: start with weir rollback $baseline," \
            "or put this artefact in force by weir apply --artefact"
    done
}

# The number that a line of a JSON file gives to a member.
number_in() {
    sed -n "s/^ *\"$2\": \([0-9][0-9]*\),\{0,1\}\$/\1/p" "$1" | head -n 1
}

# Whether text of iptables-save does anything to a packet.
has_rules() {
    grep -q -e '^\(\[[0-9:]*\] \)\{0,1\}-A ' -e '^:[A-Z]* DROP '
}

refuse_beside() {
    if command -v "$NFT" >/dev/null 2>&1; then
        printf '%s\n' "$foreign" | grep -qx "table $1 $2" || return 0
        text=$("$NFT" list table "$1" "$2" 2>/dev/null) ||
            die "cannot read table $1 $2, which is not of weir: nft list table $1 $2 says why"
        printf '%s\n' "$text" | awk '
            /^\tchain / { base = 0 }
            /^\t\ttype .* hook / { base = 1; if (/policy drop/) found = 1; next }
            /^\t\t/ && base { found = 1 }
            END { exit !found }' || return 0
    elif command -v "$3-nft-save" >/dev/null 2>&1; then
        text=$("$3-nft-save" -t "$2" 2>/dev/null) || return 0
        printf '%s\n' "$text" | has_rules || return 0
    else
        return 0
    fi
    what="table $1 $2 of nftables has rules in force (nft list table $1 $2 lists them);"
    what="$what a packet would traverse them and the new ruleset"
    if ! is_made_by_iptables_nft "$@"; then
        die "$what. iptables-nft cannot say all of them, so they cannot be moved to" \
            "iptables-legacy: take them into the ruleset, compile it again, and then" \
            "nft delete table $1 $2"
    fi
    case $1 in
    ip) save=$IPTABLES_SAVE names=/proc/net/ip_tables_names ;;
    *) save=$IP6TABLES_SAVE names=/proc/net/ip6_tables_names ;;
    esac
    if [ -n "$(there "$names" "$2")" ] && "$save" -t "$2" 2>/dev/null | has_rules; then
        die "$what. So has table $2 of iptables-legacy: take the rules of $3-nft-save -t $2 into" \
            "the ruleset, compile it again, and then nft delete table $1 $2"
    fi
    die "$what. Move them to iptables-legacy first:" \
        "rules=\$($3-nft-save -c -t $2) &&" \
        "printf '%s\\n' \"\$rules\" | $3-legacy-restore -c &&" \
        "nft delete table $1 $2"
}

# Whether what iptables-nft-save prints of a table makes the same table again.
is_made_by_iptables_nft() {
    command -v "$NFT" >/dev/null 2>&1 || return 0
    is=$("$NFT" -s list table "$1" "$2" 2>/dev/null | chains_that_act) && [ -n "$is" ] || return
    again=$("$3-nft-save" -t "$2" 2>/dev/null | unshare --net -- sh -c \
        '"$1-nft-restore" && "$2" -s list table "$3" "$4"' sh "$3" "$NFT" "$1" "$2" 2>/dev/null) &&
        [ "$(printf '%s\n' "$again" | chains_that_act)" = "$is" ]
}

# A listing of nft without chains that do nothing: iptables-nft makes the built-in chains that it
# needs, and iptables-nft-restore all of them.
chains_that_act() {
    awk '/^$/ { next }
        /^\tchain / { chain = $0; acts = 0; inside = 1; next }
        inside && /^\t}/ { if (acts) print chain "\n" $0; inside = 0; next }
        inside { chain = chain "\n" $0; if (!/^\t\ttype .* hook .* policy accept;/) acts = 1; next }
        { print }'
}

# How many rules there are in tables that would be replaced or emptied.
report_tables() {
    for table in $4; do
        rules=0
        if [ -n "$(there "$3" "$table")" ]; then
            rules=$("$2" -t "$table" | grep -c '^-A') || :
        fi
        printf '%s: table %s of %s (%s rules)\n' "$5" "$table" "$1" "$rules"
    done
}

report_state() {
    top=$(top_entry)
    if [ -z "$top" ]; then
        printf 'loaded by weir: nothing\n'
    elif [ "$(about "$top" boot)" != "$boot" ]; then
        printf 'loaded by weir: nothing since this machine was started\n'
    elif [ "$(mark_of "$top")" = loaded ]; then
        newest=$(newest_in_force) || exit
        if [ "$top" != "$newest" ]; then
            printf 'not in force any more, would be set aside: %s\n' "$(title "$top")"
            [ -n "$newest" ] || return 0
        fi
        refuse_what_was_replaced "$newest"
        printf 'loaded by weir: %s\n' "$(title "$newest")"
        is_whole "$newest" || printf 'not in force as a whole any more: would be loaded again\n'
    else
        printf 'interrupted: %s of %s, which would be rolled back first\n' \
            "$(interrupted "$top")" "$(title "$top")"
    fi
}

# Looks, without a trace, at the folder of the state or the nearest above it that is there.
check_that_state_can_be_written() {
    folder=$state
    while [ -n "$folder" ] && [ ! -d "$folder" ]; do
        folder=${folder%/*}
    done
    [ -w "${folder:-/}" ] || die "cannot write to ${folder:-/}, where what is in force would be" \
        "saved: set WEIR_STATE to a folder that can be written to"
}

# nft tables of others that have base chains: they stay as they are, and packets traverse them, too.
report_others() {
    command -v "$NFT" >/dev/null 2>&1 || return 0
    "$NFT" list chains 2>/dev/null | awk '
        /^table / { table = $2 " " $3 }
        / hook / && table !~ /^ip6? weir_/ && !told[table]++ {
            print "stays in force beside it: nft table " table }'
}

# Loads in a network namespace of its own, which shows what tools and kernel can do.
try_load() {
    unshare --net true 2>/dev/null ||
        die "cannot make a network namespace to try it in: --check needs CAP_SYS_ADMIN"
    trial=$(mktemp -d) || die "cannot make a temporary folder"
    trial=$(cd -P -- "$trial" && pwd -P)
    if said=$(WEIR_STATE=$trial unshare --net -- \
        sh "$here/load.sh" ${allow_edited:+--allow-edited} 2>&1); then
        rm -rf -- "$trial"
        trial=
    else
        rm -rf -- "$trial"
        trial=
        die "it does not load in a network namespace of its own: $said"
    fi
}

# What --check says.
report() {
    need unshare util-linux
    need mktemp coreutils
    refuse_generation
    refuse_other_variant
    if [ -n "$sets" ]; then
        refuse_other_sets
        refuse_other_own_sets
    fi
    check_that_state_can_be_written
    refuse_to_leave_a_family_without_rules
    if [ -n "$allow_edited" ]; then
        printf 'files: not compared with manifest.json\n'
    else
        printf 'files: as compiled\n'
    fi
    printf 'lock: free\n'
    report_state
    names=/proc/net/ip_tables_names
    report_tables iptables "$IPTABLES_SAVE" "$names" "$v4_tables" 'would replace'
    report_tables iptables "$IPTABLES_SAVE" "$names" "$v4_emptied" 'would empty'
    names=/proc/net/ip6_tables_names
    report_tables ip6tables "$IP6TABLES_SAVE" "$names" "$v6_tables" 'would replace'
    report_tables ip6tables "$IP6TABLES_SAVE" "$names" "$v6_emptied" 'would empty'
    for table in $(weir_tables); do
        printf 'would replace: nft table %s %s\n' "${table%:*}" "${table#*:}"
    done
    report_others
    try_load
    printf 'tools and kernel: it loads in a network namespace of its own\n'
}
