# load.sh: saves what is in force, then changes it to the ruleset beside it.

help() {
    cat <<EOF
usage: sh load.sh [--check] [--allow-edited]

Loads the ruleset of this folder ($form $id) into the network namespace that it is started in, all
or nothing. What was in force is saved below $WEIR_STATE (WEIR_STATE names another folder);
unload.sh puts it back.

  --check         says whether it would load, and what it would replace; changes nothing
  --allow-edited  loads files that were edited after they were compiled
  --help          this text

Status: 0 loaded; 1 not loaded, and the message says what is in force; 2 wrong arguments; 129, 130
or 143 ended by a signal (HUP, INT, TERM), with the message of status 1.
EOF
}

check=
allow_edited=
for argument in "$@"; do
    case $argument in
    --help)
        help
        exit 0
        ;;
    --check) check=yes ;;
    --allow-edited) allow_edited=yes ;;
    *) usage_error "unknown argument $argument" ;;
    esac
done

# The state folder of a load that --check tries.
trial=
# What was reached: `before` any change, `changing`, `done`.
stage=before
# While `changing`: no rules were changed yet.
only_sets=
finish() {
    status=$?
    trap - EXIT
    # A second signal does not interrupt the undo.
    trap '' HUP INT TERM
    set +e
    case $stage in
    before)
        [ -z "$trial" ] || rm -rf -- "$trial"
        if [ "$status" -ne 0 ] && [ -z "$check$stuck" ]; then
            say "nothing was${recovered:+ otherwise} changed: the old ruleset is in force"
        fi
        ;;
    changing)
        [ "$status" -ne 0 ] || status=1
        if [ -n "$only_sets" ] && put_sets_back "$entry" && drop "$entry"; then
            say "nothing was changed: the old ruleset is in force"
        elif [ -z "$only_sets" ] && is_untouched "$entry" && destroy_created "$entry" &&
            drop "$entry"; then
            say "nothing was changed: the old ruleset is in force"
        elif [ -z "$only_sets" ] && put_back "$entry" && drop "$entry"; then
            say "all changes were undone: the old ruleset is in force"
        else
            say "not all changes could be undone; the old ruleset is saved in $entry," \
                "and sh $(quoted "$here/unload.sh") tries again"
        fi
        ;;
    done) [ "$status" -ne 1 ] || status=0 ;;
    esac
    case $status in
    0 | 129 | 130 | 143) exit "$status" ;;
    *) exit 1 ;;
    esac
}

# From here on the entry says that the ruleset changes.
announce() {
    top=$(top_entry)
    number=${top##*/}
    next=$state/$((${number:-0} + 1))
    mv -- "$entry" "$next" || die "cannot write to $state"
    entry=$next
    stage=changing
    flush "$state"
}

create_sets() {
    make_own_mark "$entry" || return
    if [ -s "$entry/new.user" ]; then
        "$IPSET" restore <"$entry/new.user" || return
    fi
    if [ -s "$entry/new.own" ]; then
        "$IPSET" -exist restore <"$entry/new.own" || return
    fi
}

commit() {
    if [ -n "$sets" ]; then
        printf 'destroy %s\n' "$own_mark" | "$IPSET" restore
    fi
    if [ "$kind" = reload ]; then
        # What was there before the first load is what unload.sh puts back.
        drop "$entry"
    else
        set_mark "$entry" loading loaded
    fi
}

# Fills in what depends on the namespace: iptables tables that nft stands for are emptied where
# they are, and the kernel would make them if asked.
look_around() {
    v4_emptied=$(there /proc/net/ip_tables_names "$v4_emptied")
    v6_emptied=$(there /proc/net/ip6_tables_names "$v6_emptied")
    need_tools_of "$v4_tables$v4_emptied" "$v6_tables$v6_emptied" "$sets" "$nft_tables"
}

choose_kind() {
    top=$(top_entry)
    kind=load
    if [ -n "$top" ] && [ "$(about "$top" id)" = "$id" ]; then
        kind=reload
    fi
}

# Sets aside the entries above the newest that is in force.
forget_what_is_not_in_force() {
    top=$(top_entry)
    [ -n "$top" ] || return 0
    newest=$(newest_in_force) || exit
    if [ -z "$newest" ]; then
        set_aside "$(title "$top")"
        name_sets
        return
    fi
    while [ "$top" != "$newest" ]; do
        destroy_created "$top" || :
        set_entry_aside "$top" "$(title "$top")"
        top=$(top_entry)
    done
}

newest_in_force() {
    number=$(top_entry)
    number=${number##*/}
    while [ "${number:-0}" -gt 0 ]; do
        need_tools_of_entry "$state/$number"
        if is_in_force "$state/$number"; then
            printf '%s\n' "$state/$number"
            return
        fi
        number=$((number - 1))
    done
}

# Names the sets that entries created which were set aside. They may be somebody else's of the same
# name, so they are left.
name_sets() {
    command -v "$IPSET" >/dev/null 2>&1 || return 0
    left=$({ created_aside && printf '\n' && "$IPSET" list -n 2>/dev/null; } | awk '
        $0 == "" { list = 1; next }
        !list { created[$0] = 1; next }
        $0 in created { printf " %s", $0 }') || return 0
    [ -z "$left" ] || say "sets that it created are still there (ipset destroy NAME):$left"
}

# What is in force must be what the newest entry $1 loaded, or saved: to load the same again would
# overwrite somebody else's rules, and to unload what is loaded now would not lead back.
refuse_what_was_replaced() {
    [ -n "$1" ] || return 0
    need_tools_of_entry "$1"
    lost=$(replaced "$1") || exit
    if [ -n "$lost" ]; then
        die "somebody replaced $(in_words $lost) after $(title "$1") was loaded:" \
            "$(unload_command "$1") --force keeps a copy of it and puts back what was in force" \
            "before that load"
    fi
    if [ "$(about "$1" id)" != "$id" ] && ! is_whole "$1"; then
        die "$(title "$1") is not in force as a whole any more:" \
            "sh $(quoted "$(about "$1" directory)/load.sh") loads it again, and" \
            "$(unload_command "$1") --force puts back what was in force before it"
    fi
}

# The nft tables of the artefact before go as a whole. Where they are all that filters IPv4 or IPv6,
# and this artefact has no rules of that family, nothing would filter it.
refuse_to_leave_a_family_without_rules() {
    for table in $(weir_tables); do
        case $table in
        ip:*) family=4 rules=$v4_tables ;;
        *) family=6 rules=$v6_tables ;;
        esac
        [ -z "$rules" ] || continue
        case " $nft_tables" in
        *" ${table%%:*}:"*) continue ;;
        esac
        top=$(top_entry)
        cure="nft delete table ${table%:*} ${table#*:}"
        [ -z "$top" ] || cure=$(unload_command "$top")
        die "nft table ${table%:*} ${table#*:} would go, and this artefact has no IPv$family" \
            "rules to replace it: compile it with the IPv$family ruleset, or start first: $cure"
    done
}

# An artefact of weir is in force, and nothing says what was in force before it.
say_what_is_unknown() {
    [ -z "$(top_entry)" ] || return 0
    if [ -s "$entry/old.nft" ] ||
        grep -q '^:weir:' "$entry/old.iptables" "$entry/old.ip6tables"; then
        say "rules of weir are in force, but $state does not hold what was in force before them" \
            "(was it removed, or was WEIR_STATE another?): unload.sh will put these rules back"
    fi
}

# Others may have changed rules since they were saved.
refuse_what_was_changed() {
    holds_old "$entry" || die "another program changed rules after they were saved:" \
        "start $script again"
}

need_common_tools
find_here
find_namespace
files=${v4_tables:+iptables.rules}
files="$files${v6_tables:+ ip6tables.rules}${nft_tables:+ ruleset.nft}"
files="$files${sets:+ user.ipset weir.ipset names.ipset}"
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
need_root
look_around
source=$here
check_files
lock
find_state
if [ -n "$check" ]; then
    report
    exit 0
fi
make_state
recover
make_state
forget_what_is_not_in_force
make_state
refuse_what_was_replaced "$(top_entry)"
refuse_to_leave_a_family_without_rules
refuse_generation
refuse_other_variant
choose_kind
save
say_what_is_unknown
only_sets=yes
announce
create_sets
refuse_what_was_changed
only_sets=
change_to "$entry" new
is_whole "$entry" || die "the new ruleset is not in force, though no command failed"
commit
stage=done
rm -f -- "$entry/new.iptables" "$entry/new.ip6tables" "$entry/new.nft" "$entry/new.user" \
    "$entry/new.own" "$entry/had" "$entry/own" "$entry/zeroed" || :
tell "loaded $form $id; unload.sh puts back what was in force"
