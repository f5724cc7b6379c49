#!/bin/sh
# Runs weir's main job once, on a generated access network, and leaves a report in demo/.
#
# Nothing outside the folder demo/ is changed: rules are loaded in network namespaces of their own.
set -eu

cd "$(dirname "$0")/.."

out=demo
weir="${CARGO_TARGET_DIR:-target}/release/weir"
forms="linear tree ipset nft"
packets="${WEIR_DEMO_PACKETS:-10000}"
step=0

heading() {
    step=$((step + 1))
    printf '\n== %d. %s\n\n' "$step" "$*"
}

say() { printf '%s\n' "$*"; }

# Prints a command so that it can be pasted into a shell.
print_command() {
    printf '%s weir' "$1"
    shift
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./=:,-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    echo
}

show() {
    print_command '$' "$@"
    "$weir" "$@"
}

# Loading, verifying and measuring need root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

show_as_root() {
    print_command '#' "$@"
    as_root "$weir" "$@"
}

# Status 1 means that there are findings, which is no failure here.
findings_are_fine() {
    status=0
    "$@" || status=$?
    [ "$status" -le 1 ]
}

finish() {
    status=$?
    if [ "$status" -ne 0 ] && [ "$step" -gt 0 ]; then
        printf '\ndemo: step %d failed (status %d); its output so far is in %s/\n' \
            "$step" "$status" "$out" >&2
    fi
}
trap finish EXIT

if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
    say 'demo: loading and measuring need root: run it as root, or install sudo' >&2
    exit 2
fi

# Only a folder that an earlier demo created is removed.
if [ -e "$out" ] && [ ! -e "$out/.weir-demo" ]; then
    say "demo: $out/ exists and was not created by make demo; move it away first" >&2
    exit 2
fi
as_root rm -rf "$out"
mkdir "$out"
: >"$out/.weir-demo"

heading 'Build'
cargo build --release --locked --package weir
say 'built'

heading 'An access network: 2,105 customers, as iptables-save text'
show example isp --seed 1 -o "$out"
rules="$out/isp.rules"
rules6="$out/isp.rules6"

heading 'Summary and findings'
findings_are_fine show check "$rules" --ip6 "$rules6"

heading 'One packet, to the last customer, compared with each rule on its path'
customer=$(sed -n 's/^-A customers_down -d \([0-9.]*\).*/\1/p' "$rules" | tail -n 1)
network=${customer%.*}.0/24
vlan=$(sed -n "s,^-A vlan_\([0-9]*\) .*-s $network .*,\1,p" "$rules" | head -n 1)
packet="iif eth1 oif eth0.${vlan:-101} ip saddr 198.51.100.9 ip daddr $customer tcp dport 443"
print_command '$' explain "$rules" --hook forward --packet "$packet ct state new"
"$weir" explain "$rules" --hook forward --packet "$packet ct state new" >"$out/explain.txt"
head -n 3 "$out/explain.txt"
say '  …'
tail -n 8 "$out/explain.txt"
say "(complete output: $out/explain.txt)"

heading 'The same ruleset in four forms, each proven equal before it is written'
for form in $forms; do
    show compile "$rules" --ip6 "$rules6" --to "$form" -o "$out/$form"
done

heading 'Load and unload each form, in a network namespace of its own'
for form in $forms; do
    say "# unshare --net sh -c 'sh $out/$form/load.sh && sh $out/$form/unload.sh'"
    as_root unshare --net sh -c 'sh "$1/load.sh" && sh "$1/unload.sh"' sh "$out/$form"
done

heading 'Compare the forms in the kernel: verdicts per packet, counters per batch'
printf '%s > %s\n' "$(print_command '#' verify "$rules" --ip6 "$rules6" --json --packets \
    "$packets" "$out/tree" "$out/ipset" "$out/nft")" "$out/verified.json"
as_root "$weir" verify "$rules" --ip6 "$rules6" --json --packets "$packets" \
    "$out/tree" "$out/ipset" "$out/nft" >"$out/verified.json"
say "no difference but documented deviations of nft: $out/verified.json counts both"

heading 'Measure the forms side by side (smoke preset: short trials, wide intervals)'
show_as_root lab run studies/demo -o "$out/run" --preset smoke

heading 'Results'
as_root "$weir" lab report "$out/run" -o "$out/report.html" --verified "$out/verified.json" \
    --artefact "$out/tree" --artefact "$out/ipset" --artefact "$out/nft"
say
say "Open $out/report.html"
