# What was in force is kept in $state, one entry for each load that is not unloaded yet: 1 is the
# oldest. An entry holds the old ruleset (old.*), the names of the sets that the load creates
# (created), what is loaded (about), and one of four marks:
#   loading    the old ruleset, the new one, or both are in force: the load has not ended
#   loaded     the new ruleset is in force
#   unloading  as `loading`: the unload has not ended
#   forcing    the same of an unload by --force
# An entry appears, changes its mark and goes by one rename each. It is complete, and on the disk,
# before the first change of the ruleset, and it goes after the last.

# Whether $1 is a folder of this user's that nobody else can write to.
is_private() {
    [ -n "$(find "$1" -prune -type d -user "$user" ! -perm -020 ! -perm -002 2>/dev/null)" ]
}

# Finds the state of this namespace and refuses one that somebody else could have put there.
find_state() {
    user=$(id -u)
    read -r boot </proc/sys/kernel/random/boot_id
    directory=$(printf '%s' "$here" | tr '\n' '?')
    case $WEIR_STATE in
    /*) ;;
    *) die "WEIR_STATE=$WEIR_STATE is no absolute path" ;;
    esac
    while [ "$WEIR_STATE" != "${WEIR_STATE%/}" ]; do
        WEIR_STATE=${WEIR_STATE%/}
    done
    state=$WEIR_STATE/net-$namespace
    for folder in "$WEIR_STATE" "$state"; do
        if [ -e "$folder" ] || [ -L "$folder" ]; then
            [ ! -L "$folder" ] || die "$folder is a symbolic link:" \
                "remove it, or set WEIR_STATE to a folder of your own"
            [ -d "$folder" ] || die "$folder is no folder:" \
                "set WEIR_STATE to a folder of your own"
            is_private "$folder" || die "$folder belongs to somebody else, or others can write to" \
                "it; look at what it holds, then chown $user $(quoted "$folder") &&" \
                "chmod go-w $(quoted "$folder")"
        fi
    done
    if [ -d "$state" ]; then
        odd=$(find "$state" ! \( -user "$user" \( -type d -o -type f \) \) | head -n 1)
        [ -z "$odd" ] || die "$odd is a symbolic link or belongs to somebody else: move it away"
    fi
}

make_state() {
    if [ ! -d "$state" ]; then
        mkdir -p -- "$WEIR_STATE" && mkdir -m 700 -- "$state" || die "cannot make $state"
        find_state
    fi
}

flush() {
    sync -- "$@"
}

# The newest entry; nothing where there is none.
top_entry() {
    number=0
    while [ -d "$state/$((number + 1))" ]; do
        number=$((number + 1))
    done
    if [ "$number" -gt 0 ]; then
        printf '%s\n' "$state/$number"
    fi
}

# The value of a line of an entry's description.
about() {
    while IFS= read -r line; do
        case $line in
        "$2="*)
            printf '%s\n' "${line#*=}"
            return
            ;;
        esac
    done <"$1/about"
}

title() {
    printf '%s %s of %s' "$(about "$1" form)" "$(about "$1" id)" "$(about "$1" directory)"
}

mark_of() {
    for mark in loading loaded unloading forcing; do
        if [ -e "$1/$mark" ]; then
            printf '%s\n' "$mark"
        fi
    done
}

# What was interrupted: `load` or `unload`.
interrupted() {
    if [ -e "$1/loading" ]; then
        printf 'load'
    else
        printf 'unload'
    fi
}

# The command that unloads the newest entry.
unload_command() {
    other=$(about "$1" directory)
    if [ -f "$other/unload.sh" ]; then
        printf 'sh %s' "$(quoted "$other/unload.sh")"
    else
        printf 'sh %s --latest' "$(quoted "$here/unload.sh")"
    fi
}

set_mark() {
    mv -- "$1/$2" "$1/$3" && flush "$1"
}

drop() {
    rm -rf -- "$state/gone" && mv -- "$1" "$state/gone" && flush "$state" || return
    rm -rf -- "$state/gone" || :
}

# Whether an entry's artefact is this one, or was loaded from this folder before it was replaced.
is_mine() {
    [ "$(about "$1" id)" = "$id" ] || [ "$(about "$1" directory)" = "$directory" ]
}

# The folder for what is kept, but not used.
choose_aside() {
    aside=$state.old
    number=1
    while [ -e "$aside" ]; do
        number=$((number + 1))
        aside=$state.$number.old
    done
}

# The commands that load the ruleset that the folder $1 holds.
restoring() {
    loads=
    [ ! -s "$1/old.iptables" ] || loads="$IPTABLES_RESTORE -c <$(quoted "$1/old.iptables")"
    [ ! -s "$1/old.ip6tables" ] ||
        loads="${loads:+$loads && }$IP6TABLES_RESTORE -c <$(quoted "$1/old.ip6tables")"
    [ ! -s "$1/old.nft" ] || loads="${loads:+$loads && }$NFT -f $(quoted "$1/old.nft")"
    printf '%s' "${loads:-it has no rules}"
}

say_aside() {
    say "what is saved of $1 is not in force here; it is kept in $aside"
    say "to load the ruleset from before it: $(restoring "$2")"
}

# What the state holds is not of this namespace as it is now.
set_aside() {
    choose_aside
    newest=$(top_entry)
    mv -- "$state" "$aside" || die "cannot move $state away"
    say_aside "$1" "$aside/${newest##*/}"
}

# The same of the newest entry alone: those below it are as they were.
set_entry_aside() {
    choose_aside
    mkdir -m 700 -- "$aside" && mv -- "$1" "$aside/1" || die "cannot move $1 to $aside"
    say_aside "$2" "$aside/1"
}

# Refuses saved files that are not as they were saved.
check_entry() {
    (cd -P -- "$1" && sha256sum -c digests >/dev/null 2>&1) || [ -n "$allow_edited" ] ||
        die "$1 was edited after it was saved; --allow-edited puts it back as it is"
}

# Rolls back what a killed script began: to the ruleset from before the load, which is what an
# unload is after, and where a load has to begin again.
recovered=
# What could not be undone.
stuck=
recovered_mine=
recover() {
    rm -rf -- "$state/new" "$state/gone"
    top=$(top_entry)
    [ -n "$top" ] || return 0
    [ -f "$top/about" ] || die "$top holds nothing that was saved: remove it"
    if [ "$(about "$top" boot)" != "$boot" ]; then
        set_aside "an earlier boot"
        return
    fi
    [ "$(mark_of "$top")" != loaded ] || return 0
    check_entry "$top"
    need_tools_of_entry "$top"
    what="the interrupted $(interrupted "$top") of $(title "$top")"
    split_tables old || die "cannot list the nft tables by $NFT"
    # Copies are there from the first change of rules to the last.
    if [ -e "$top/forcing" ] || [ -n "$copies" ] || is_in_force "$top"; then
        stuck=yes
        keep_replaced "$top"
        put_back "$top" || die "$what could not be undone; the old ruleset is saved in $top"
        stuck=
    elif holds_old "$top"; then
        if has_own_mark "$top" && [ -s "$top/old.sets" ]; then
            put_back "$top" || die "$what could not be undone; the old ruleset is saved in $top"
        elif has_own_mark "$top"; then
            destroy_created "$top"
        fi
    else
        ! has_own_mark "$top" || destroy_created "$top"
        set_entry_aside "$top" "$what"
        return
    fi
    if is_mine "$top" && [ "$(about "$top" kind)" = load ]; then
        recovered_mine=yes
    fi
    recovered=$(title "$top")
    drop "$top" || die "cannot remove $top"
    say "$what was rolled back: the ruleset from before the load is in force"
}
