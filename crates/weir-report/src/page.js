// The page is whole without this. It adds values under the pointer, and switches in the legend.
(() => {
  "use strict";

  const figures = document.querySelectorAll("figure[data-plot]");

  const tip = (figure) => {
    const box = document.createElement("div");
    box.className = "tip";
    box.hidden = true;
    figure.append(box);
    return box;
  };

  // All texts are set as text, never as markup.
  const add = (parent, name, text, style) => {
    const child = document.createElement(name);
    child.textContent = text;
    if (style) child.className = style;
    parent.append(child);
    return child;
  };

  const show = (figure, svg, box, event) => {
    const points = [...svg.querySelectorAll(".series:not(.off-series, .off-run) .point")];
    if (!points.length) return;
    const frame = svg.getBoundingClientRect();
    const unit = svg.viewBox.baseVal.width / frame.width;
    const pointer = (event.clientX - frame.left) * unit;
    const away = (point) => Math.abs(Number(point.dataset.at) - pointer);
    const nearest = points.reduce((a, b) => (away(b) < away(a) ? b : a));
    const column = points.filter((point) => point.dataset.at === nearest.dataset.at);
    const height = (point) => {
      const mark = point.querySelector(".mark").getBoundingClientRect();
      return mark.top + mark.height / 2;
    };
    column.sort((a, b) => height(a) - height(b));

    box.replaceChildren();
    add(box, "b", `${nearest.dataset.x} ${figure.dataset.plot}`);
    for (const point of column) {
      const row = add(box, "span", point.dataset.name, point.closest(".series").classList[1]);
      add(row, "i", `${point.dataset.value} ${point.dataset.range}`);
    }
    box.hidden = false;
    const cross = svg.querySelector(".cross");
    cross.setAttribute("x1", nearest.dataset.at);
    cross.setAttribute("x2", nearest.dataset.at);
    cross.style.visibility = "visible";

    const place = figure.getBoundingClientRect();
    const x = frame.left - place.left + Number(nearest.dataset.at) / unit;
    const left = x + 16 + box.offsetWidth > place.width ? x - 16 - box.offsetWidth : x + 16;
    box.style.left = `${Math.max(0, left)}px`;
    box.style.top = `${Math.max(0, event.clientY - place.top - box.offsetHeight - 12)}px`;
  };

  for (const figure of figures) {
    const box = tip(figure);
    for (const svg of figure.querySelectorAll("svg.chart")) {
      // Without the script the browser shows these itself; with it they would show twice.
      svg.querySelectorAll(".point > title").forEach((title) => title.remove());
      svg.addEventListener("pointermove", (event) => show(figure, svg, box, event));
      svg.addEventListener("pointerleave", () => {
        box.hidden = true;
        svg.querySelector(".cross").style.visibility = "hidden";
      });
    }
  }

  // A line is shown while its subject is, and its run.
  const set = (kind, value, shown) => {
    const named = `[data-${kind}="${value}"]`;
    document.querySelectorAll(`.chart ${named}`)
      .forEach((part) => part.classList.toggle(`off-${kind}`, !shown));
    document.querySelectorAll(`.legend ${named}`)
      .forEach((item) => item.setAttribute("aria-pressed", String(shown)));
  };
  const switches = (kind) => {
    for (const item of document.querySelectorAll(`.legend [data-${kind}]`)) {
      item.setAttribute("role", "button");
      item.setAttribute("aria-pressed", "true");
      item.tabIndex = 0;
      const flip = () =>
        set(kind, item.dataset[kind], item.getAttribute("aria-pressed") === "false");
      item.addEventListener("click", flip);
      item.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          flip();
        }
      });
    }
  };
  switches("series");
  switches("run");
})();
