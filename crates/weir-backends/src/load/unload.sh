# Put back what load.sh kept.
[ -d "$state" ] || die "this artefact is not loaded in this network namespace"
[ "$in_force" = "$id" ] ||
    die "artefact $in_force was loaded since: unload that one first"

restore_tables "$state" || die "what was in force could not be put back; it is in $state"
if [ -s "$state/created" ]; then
    destroy_sets "$state/created" || die "a set is in use by something else"
fi
previous=
if [ -f "$state/previous" ]; then
    read -r previous <"$state/previous" || :
fi
if [ -n "$previous" ]; then
    printf '%s\n' "$previous" >"$current"
else
    rm -f -- "$current"
fi
rm -rf -- "$state"
printf 'unloaded %s %s; what was in force before is back\n' "$form" "$id"
