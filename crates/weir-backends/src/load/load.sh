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

Status: 0 loaded; 1 not loaded, and the message says what is in force; 2 wrong arguments.
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
finish() {
    status=$?
    trap - EXIT HUP INT TERM
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
        if is_untouched "$entry" && destroy_created "$entry" && drop "$entry"; then
            say "nothing was changed: the old ruleset is in force"
        elif put_back "$entry" && drop "$entry"; then
            say "all changes were undone: the old ruleset is in force"
        else
            say "not all changes could be undone; the old ruleset is saved in $entry," \
                "and sh $(quoted "$here/unload.sh") tries again"
        fi
        ;;
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

forget_what_is_not_in_force() {
    top=$(top_entry)
    [ -n "$top" ] || return 0
    need_tools_of_entry "$top"
    if ! is_in_force "$top"; then
        set_aside "$(title "$top")"
    fi
}

find_here
find_namespace
files=${v4_tables:+iptables.rules}
files="$files${v6_tables:+ ip6tables.rules}${nft_tables:+ ruleset.nft}"
files="$files${sets:+ user.ipset weir.ipset names.ipset}"
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
need_common_tools
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
refuse_other_variant
choose_kind
save
announce
create_sets
change_to "$entry" new
is_whole "$entry" || die "the new ruleset is not in force, though no command failed"
commit
stage=done
rm -f -- "$entry/new.iptables" "$entry/new.ip6tables" "$entry/new.nft" "$entry/new.user" \
    "$entry/new.own" "$entry/had" "$entry/own" "$entry/zeroed" || :
tell "loaded $form $id; unload.sh puts back what was in force"
