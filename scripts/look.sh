#!/bin/sh
# Looks at the pages of `weir lab index` and `weir lab report` in a headless Chromium: no message on
# the console, drawings where the page has a figure, nothing wider than the window at 1280 and at
# 400 pixels, light paper and dark as the reader has it, and a print. Usage: scripts/look.sh
# PAGE.html...
set -eu

browser=$(command -v chromium || command -v chromium-headless-shell || command -v google-chrome) || {
    echo 'look: needs chromium (scripts/install-deps.sh --look installs it)' >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
    echo "look: $*" >&2
    failed=1
}

# The browser without a window, its messages on standard error.
browse() {
    "$browser" --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
        --user-data-dir="$work/profile" --virtual-time-budget=5000 --enable-logging=stderr "$@"
}

# A page that holds the page in a frame of the given width, and writes what it sees into its title:
# figures, those without a drawing, the page's width and the window's, how bright its paper is, and
# drawings that a drag does not show closer or that the button does not show whole again.
frame() {
    cat <<HTML
<!doctype html><title>waiting</title><body style="margin:0">
<iframe id="f" src="file://$1" style="width:$2px;height:900px;border:0"></iframe>
<script>
document.getElementById('f').addEventListener('load', (event) => {
  const page = event.target.contentDocument;
  const figures = [...page.querySelectorAll('figure')];
  const empty = figures.filter((figure) => !figure.querySelector('svg .point, svg path, svg line'));
  const root = page.documentElement;
  const paper = getComputedStyle(page.body).backgroundColor.match(/[0-9]+/)[0];
  const widths = [root.scrollWidth, root.clientWidth];
  const drag = (svg) => {
    const box = svg.getBoundingClientRect();
    const at = (type, share) => svg.dispatchEvent(new event.target.contentWindow.PointerEvent(type, {
      clientX: box.left + box.width * share, clientY: box.top + box.height * share,
      pointerType: 'mouse', bubbles: true }));
    at('pointerdown', .4);
    at('pointermove', .6);
    at('pointerup', .6);
  };
  const shown = [...page.querySelectorAll('figure[data-plot] svg.chart')]
    .filter((svg) => svg.getBoundingClientRect().width > 0);
  const stuck = shown.filter((svg) => {
    const [whole, width] = [svg.getAttribute('viewBox'), svg.viewBox.baseVal.width];
    drag(svg);
    const closer = svg.viewBox.baseVal.width;
    svg.closest('figure').querySelectorAll('button.all').forEach((button) => button.click());
    return closer > width * .21 || svg.viewBox.baseVal.width !== width || !whole;
  });
  document.title = [figures.length, empty.length, ...widths, paper, stuck.length].join(' ');
});
</script>
HTML
}

# What the frame of page $1 at width $2 sees, in a light or a dark room: $3 is what the room is.
seen() {
    frame "$(readlink -f "$1")" "$2" > "$work/frame.html"
    scheme=1
    [ "$3" = light ] || scheme=0
    browse --blink-settings=preferredColorScheme=$scheme --window-size="$2,900" \
        --dump-dom "file://$work/frame.html" > "$work/dom" 2> "$work/log" ||
        complain "$1: the browser failed"
    if grep -q 'CONSOLE' "$work/log"; then
        complain "$1 at $2, $3: $(grep -m 1 'CONSOLE' "$work/log")"
    fi
    sed -n 's,.*<title>\([0-9 ]*\)</title>.*,\1,p' "$work/dom" | head -n 1
}

for page in "$@"; do
    for way in '1280 light' '400 light' '1280 dark'; do
        width=${way% *} room=${way#* }
        seen "$page" "$width" "$room" > "$work/seen"
        read -r figures empty scroll client paper stuck < "$work/seen" || figures=
        if [ -z "${figures:-}" ]; then
            complain "$page at $width, $room: it was not read"
            continue
        fi
        [ "$empty" -eq 0 ] || complain "$page at $width: $empty of $figures figures are empty"
        [ "$scroll" -le "$client" ] || complain "$page at $width: $scroll pixels in $client"
        [ "$stuck" -eq 0 ] || complain "$page at $width: $stuck drawings cannot be seen closer"
        case $room in
            light) [ "$paper" -gt 200 ] || complain "$page: dark paper in a light room" ;;
            dark) [ "$paper" -lt 60 ] || complain "$page: light paper in a dark room" ;;
        esac
        echo "$page at $width, $room: $figures figures, nothing wider than the window"
    done
    browse --no-pdf-header-footer --print-to-pdf="$work/print.pdf" "file://$(readlink -f "$page")" \
        > "$work/dom" 2> "$work/log" || complain "$page: it was not printed"
    head -c 5 "$work/print.pdf" 2> /dev/null | grep -q '%PDF-' || complain "$page: no print"
    rm -f "$work/print.pdf"
done
exit "$failed"
