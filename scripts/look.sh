#!/bin/sh
# Looks at the pages of `weir lab index` and `weir lab report` in a headless Chromium: no message on
# the console, drawings where the page has a figure, nothing wider than the window at 1280 and at 400
# pixels. Usage: scripts/look.sh PAGE.html...
set -eu

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo 'look: needs chromium (apt-get install chromium)' >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
    echo "look: $*" >&2
    failed=1
}

# A page that holds the page in a frame of the given width, and writes what it sees into its title.
frame() {
    cat <<HTML
<!doctype html><title>waiting</title><body style="margin:0">
<iframe id="f" src="file://$1" style="width:$2px;height:900px;border:0"></iframe>
<script>
document.getElementById('f').addEventListener('load', (event) => {
  const page = event.target.contentDocument;
  const figures = [...page.querySelectorAll('figure[data-plot]')];
  const empty = figures.filter((figure) => !figure.querySelector('svg .point, svg path, svg line'));
  const root = page.documentElement;
  document.title = [figures.length, empty.length, root.scrollWidth, root.clientWidth].join(' ');
});
</script>
HTML
}

for page in "$@"; do
    path=$(readlink -f "$page")
    for width in 1280 400; do
        frame "$path" "$width" > "$work/frame.html"
        "$browser" --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
            --user-data-dir="$work/profile" --virtual-time-budget=5000 --enable-logging=stderr \
            --window-size="$width,900" --dump-dom "file://$work/frame.html" \
            > "$work/dom" 2> "$work/log" || complain "$page: the browser failed"
        if grep -q 'CONSOLE' "$work/log"; then
            complain "$page at $width: $(grep -m 1 'CONSOLE' "$work/log")"
        fi
        seen=$(sed -n 's,.*<title>\([0-9 ]*\)</title>.*,\1,p' "$work/dom" | head -n 1)
        if [ -z "$seen" ]; then
            complain "$page at $width: it was not read"
            continue
        fi
        figures=${seen%% *} rest=${seen#* }
        empty=${rest%% *} rest=${rest#* }
        scroll=${rest%% *} client=${rest#* }
        [ "$empty" -eq 0 ] || complain "$page at $width: $empty of $figures figures are empty"
        [ "$scroll" -le "$client" ] || complain "$page at $width: $scroll pixels in $client"
        echo "$page at $width: $figures figures, nothing wider than the window"
    done
done
exit "$failed"
