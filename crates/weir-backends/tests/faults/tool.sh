#!/bin/sh
# Stands in the PATH of a script under every tool's name, and makes one call of one tool go wrong.
#   FAULT_PATH   where the tools are
#   FAULT_COUNT  a file of the run's own, a line for each call
#   FAULT_AT     the number of the call at which the process group is killed,
#   FAULT_ONLY   set: only calls that change rules are counted
#   FAULT_WHEN   `before` or `after` the tool's work
#   FAULT_CUT    saves that go into a file end after so many bytes, with status 0
#   FAULT_TOOL   whose saves
#   FAULT_GATE   the first `find`, which comes after the lock, waits for a line from here
#   FAULT_LOG    where the time of each change of rules is written
name=${0##*/}
PATH=$FAULT_PATH
case "$name $*" in
*-restore\ -w* | nft\ -f*) changes=yes ;;
*) changes= ;;
esac
if [ -n "${FAULT_ONLY-}" ] && [ -z "$changes" ]; then
    :
elif [ -n "${FAULT_AT-}" ]; then
    printf '%s\n' "$name" >>"$FAULT_COUNT"
    n=0
    while read -r _; do
        n=$((n + 1))
    done <"$FAULT_COUNT"
    if [ "$n" -eq "$FAULT_AT" ]; then
        [ "$FAULT_WHEN" = before ] || "$name" "$@"
        kill -s KILL 0
    fi
elif [ "${FAULT_TOOL-}" = "$name" ] && [ -f /proc/self/fd/1 ]; then
    "$name" "$@" | head -c "$FAULT_CUT"
    exit 0
elif [ -n "${FAULT_GATE-}" ] && [ "$name" = find ] && [ ! -e "$FAULT_COUNT" ]; then
    : >"$FAULT_COUNT"
    read -r _ <"$FAULT_GATE"
elif [ -n "${FAULT_LOG-}" ]; then
    if [ -n "$changes" ]; then
        "$name" "$@"
        status=$?
        date "+$name %s%N" >>"$FAULT_LOG"
        exit "$status"
    fi
fi
exec "$name" "$@"
