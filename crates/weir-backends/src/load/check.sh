# What is looked at before anything is saved or changed.

# Files of the artefact are as they were compiled: their digests stand in manifest.json.
check_files() {
    manifest=$here/manifest.json
    [ -f "$manifest" ] || die "$manifest is missing: start load.sh in the folder of an artefact"
    for file in load.sh unload.sh $files; do
        [ -f "$here/$file" ] || die "$here/$file is missing: compile again"
    done
    [ -z "$allow_edited" ] || return 0
    digests=$(awk -F '"' -v files=" load.sh unload.sh $files " '$2 == "name" { name = $4 }
        $2 == "sha256" && index(files, " " name " ") { print $4 "  " name }' "$manifest")
    [ "$(printf '%s\n' "$digests" | grep -c .)" -eq "$(count load.sh unload.sh $files)" ] ||
        die "$manifest does not name all files: compile again"
    result=$(cd -P -- "$here" && printf '%s\n' "$digests" | sha256sum -c 2>/dev/null) && return
    edited=$(printf '%s\n' "$result" | sed -n 's/: FAILED.*//p' | head -n 1)
    die "$here/$edited was edited after it was compiled:" \
        "compile again, or load it as it is by --allow-edited"
}

# Refuses to load beside rules of iptables-nft in the same tables: a packet would meet both.
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
    die "iptables-nft has rules in force in table $2 ($3-nft-save -t $2 lists them);" \
        "a packet would meet them and the new ruleset. Move them to iptables-legacy first:" \
        "$3-nft-save -t $2 | $3-legacy-restore && nft delete table $1 $2"
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
    elif [ "$(mark_of "$top")" = loaded ]; then
        printf 'loaded by weir: %s\n' "$(title "$top")"
    else
        printf 'interrupted: %s of %s, which would be ended first\n' \
            "$(interrupted "$top")" "$(title "$top")"
    fi
}

# nft tables of others that have base chains: they stay as they are, and packets meet them, too.
report_others() {
    command -v "$NFT" >/dev/null 2>&1 || return 0
    "$NFT" list chains 2>/dev/null | awk '
        /^table / { table = $2 " " $3 }
        / hook / && table !~ /^ip6? weir_/ && !told[table]++ {
            print "stays in force beside it: nft table " table }'
}

# Loads in a network namespace of its own, which shows what tools and kernel can do.
try_load() {
    trial=$(mktemp -d) || die "cannot make a temporary folder"
    if said=$(WEIR_STATE=$trial unshare --net -- \
        sh "$here/load.sh" ${allow_edited:+--allow-edited} 2>&1); then
        rm -rf -- "$trial"
    else
        rm -rf -- "$trial"
        die "it does not load in a network namespace of its own: $said"
    fi
}

# What --check says.
report() {
    need unshare util-linux
    refuse_other_variant
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
