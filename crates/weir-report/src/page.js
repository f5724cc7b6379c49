// The page is whole without this. It adds values under the pointer, a closer look at what is dragged
// over, and switches in the legend.
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
    const view = svg.viewBox.baseVal;
    const unit = view.width / frame.width;
    const pointer = view.x + (event.clientX - frame.left) * unit;
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
    const x = frame.left - place.left + (Number(nearest.dataset.at) - view.x) / unit;
    const left = x + 16 + box.offsetWidth > place.width ? x - 16 - box.offsetWidth : x + 16;
    box.style.left = `${Math.max(0, left)}px`;
    box.style.top = `${Math.max(0, event.clientY - place.top - box.offsetHeight - 12)}px`;
  };

  // The part of a drawing that is seen. What is drawn grows; texts, lines and marks keep their size
  // (by the style sheet), and the values of the axes stay at its edges.
  const look = (svg, whole, view) => {
    const near = whole.width / view.width;
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
    svg.style.setProperty("--near", near);
    svg.classList.toggle("near", near > 1);
    for (const tick of svg.querySelectorAll(".tick")) {
      const place = (axis, from, length, at) => {
        const kept = `${axis}Whole`;
        tick.dataset[kept] ??= tick.getAttribute(axis);
        const was = Number(tick.dataset[kept]);
        const atEnd = was > at / 2;
        tick.setAttribute(axis, atEnd ? from + length - (at - was) / near : from + was / near);
      };
      if (tick.classList.contains("end")) place("x", view.x, view.width, whole.width);
      if (tick.classList.contains("mid")) place("y", view.y, view.height, whole.height);
    }
  };

  // Drag over a part with the mouse to see it closer; a double click or the button shows all.
  const CLOSEST = 40;
  const SHORTEST_DRAG = 8;
  const closer = (figure, svg) => {
    const { width, height } = svg.viewBox.baseVal;
    const whole = { x: 0, y: 0, width, height };
    const all = add(figure, "button", "show all", "all");
    all.type = "button";
    all.hidden = true;
    const see = (view) => {
      look(svg, whole, view);
      all.hidden = view === whole;
    };
    all.addEventListener("click", () => see(whole));
    svg.addEventListener("dblclick", () => see(whole));
    window.addEventListener("beforeprint", () => see(whole));

    const place = (event) => {
      const frame = svg.getBoundingClientRect();
      const view = svg.viewBox.baseVal;
      const unit = view.width / frame.width;
      return {
        x: view.x + (event.clientX - frame.left) * unit,
        y: view.y + (event.clientY - frame.top) * unit,
      };
    };
    const pick = document.createElementNS(svg.namespaceURI, "rect");
    pick.setAttribute("class", "pick");
    let begun = null;
    const dragged = (event) => {
      const end = place(event);
      const [x, y] = [Math.min(begun.x, end.x), Math.min(begun.y, end.y)];
      return { x, y, width: Math.abs(begun.x - end.x), height: Math.abs(begun.y - end.y) };
    };
    svg.addEventListener("pointerdown", (event) => {
      // A finger scrolls.
      if (event.button !== 0 || event.pointerType === "touch") return;
      event.preventDefault();
      begun = place(event);
      svg.append(pick);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!begun) return;
      for (const [name, value] of Object.entries(dragged(event))) pick.setAttribute(name, value);
    });
    const drop = () => {
      begun = null;
      pick.remove();
      for (const name of ["x", "y", "width", "height"]) pick.removeAttribute(name);
    };
    svg.addEventListener("pointerleave", drop);
    svg.addEventListener("pointerup", (event) => {
      if (!begun) return;
      const part = dragged(event);
      drop();
      const unit = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
      if (Math.max(part.width, part.height) < SHORTEST_DRAG * unit) return;
      const fit = Math.min(width / part.width, height / part.height);
      const near = Math.min(CLOSEST, Math.max(1, fit));
      const view = { width: width / near, height: height / near };
      view.x = part.x + part.width / 2 - view.width / 2;
      view.y = part.y + part.height / 2 - view.height / 2;
      see(view);
    });
  };

  for (const figure of figures) {
    const box = tip(figure);
    for (const svg of figure.querySelectorAll("svg.chart")) {
      // Without the script the browser shows these itself; with it they would show twice.
      svg.querySelectorAll(".point > title").forEach((title) => title.remove());
      closer(figure, svg);
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
