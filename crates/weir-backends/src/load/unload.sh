# unload.sh: puts back what load.sh saved.

help() {
    cat <<EOF
usage: sh unload.sh [--check] [--latest] [--force] [--allow-edited]

Puts back what was in force in this network namespace before the artefact of this folder ($form $id)
was loaded. Also rolls back what a killed load.sh began, and completes what a killed unload.sh began.

  --check         says what it would put back; changes nothing
  --latest        unloads what was loaded last, from whatever folder
  --force         puts back also where the artefact's rules are not in force any more
  --allow-edited  puts back saved files that were edited after they were saved
  --help          this text

Status: 0 unloaded; 1 not unloaded, and the message says what is in force; 2 wrong arguments; 129,
130 or 143 ended by a signal (HUP, INT, TERM), with the message of status 1.
EOF
}

check=
latest=
force=
allow_edited=
for argument in "$@"; do
    case $argument in
    --help)
        help
        exit 0
        ;;
    --check) check=yes ;;
    --latest) latest=yes ;;
    --force) force=yes ;;
    --allow-edited) allow_edited=yes ;;
    *) usage_error "unknown argument $argument" ;;
    esac
done

# What was reached: `before` any change, `changing`, `done`.
stage=before
finish() {
    status=$?
    trap - EXIT
    trap '' HUP INT TERM
    case $stage in
    before)
        if [ "$status" -ne 0 ] && [ -z "$check$stuck" ]; then
            say "nothing was${recovered:+ otherwise} changed"
        fi
        ;;
    changing)
        [ "$status" -ne 0 ] || status=1
        say "the unload has not ended; what was in force before is saved in $top," \
            "and sh $(quoted "$here/unload.sh")${latest:+ --latest} goes on"
        ;;
    esac
    case $status in
    0 | 129 | 130 | 143) exit "$status" ;;
    *) exit 1 ;;
    esac
}

unloaded() {
    tell "unloaded $1; what was in force before is back"
}

# The entry to unload: the newest, and it must be of this artefact.
choose_entry() {
    top=$(top_entry)
    [ -n "$top" ] || die "this artefact is not loaded in this network namespace"
    if is_mine "$top" || [ -n "$latest" ]; then
        return
    fi
    die "$(title "$top") was loaded since: $(unload_command "$top") unloads it"
}

check_that_it_is_in_force() {
    need_tools_of_entry "$top"
    check_entry "$top"
    if [ -n "$force" ] || is_whole "$top"; then
        return
    fi
    die "the rules of $(title "$top") are not in force any more; what was in force before them" \
        "is saved in $top, and sh $(quoted "$here/unload.sh")${latest:+ --latest} --force puts it" \
        "back and keeps a copy of what others loaded"
}

report() {
    top=$(top_entry)
    if [ -n "$top" ] && [ "$(about "$top" boot)" != "$boot" ]; then
        die "nothing was loaded since this machine was started"
    fi
    if [ -n "$top" ] && [ "$(mark_of "$top")" != loaded ]; then
        printf 'interrupted: %s of %s, which would be rolled back first\n' \
            "$(interrupted "$top")" "$(title "$top")"
        check_entry "$top"
    else
        choose_entry
        check_that_it_is_in_force
    fi
    printf 'lock: free\nwould unload: %s\nwould put back: %s\n' "$(title "$top")" "$top"
}

need_common_tools
find_here
find_namespace
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
need_root
lock
find_state
[ -d "$state" ] || die "this artefact is not loaded in this network namespace"
if [ -n "$check" ]; then
    report
    exit 0
fi
recover
if [ -n "$recovered_mine" ] || { [ -n "$recovered" ] && [ -n "$latest" ]; }; then
    stage=done
    unloaded "$recovered"
    exit 0
fi
choose_entry
check_that_it_is_in_force
if [ -n "$force" ]; then
    keep_replaced "$top"
fi
mark=unloading
[ -z "$force" ] || mark=forcing
set_mark "$top" loaded "$mark" || die "cannot write to $top"
stage=changing
make_own_mark "$top"
what=$(title "$top")
put_back "$top"
if ! holds_old "$top" or_more; then
    stage=done
    set_entry_aside "$top" "the ruleset from before $what"
    die "it was put back, but $IPTABLES_SAVE prints another one now"
fi
drop "$top"
stage=done
unloaded "$what"
