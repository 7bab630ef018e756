// The series page's figure: names under the commits, labels that leave each other room, finer points where a reader
// zooms in, and the panel of a point that was clicked. Without this script the page's links and tables do the same.
(() => {
  const chart = document.querySelector("[data-series]");
  if (!chart) return;
  const plot = chart.querySelector(".ww-plot");
  const panel = document.querySelector("#point");
  const LANE = 16; // pixels, as in dashboard/web/figures/style.py
  const LANES = 2;
  const pen = document.createElement("canvas").getContext("2d");

  function place(value) {
    return typeof value === "number" ? value : new Date(/(Z|[+-]\d\d:\d\d)$/.test(value) ? value : `${String(value).replace(" ", "T")}Z`).getTime();
  }

  // Plotly's own names for an axis of numbers would be numbers: a few commits get theirs instead.
  function nameCommits(layout, width) {
    const { commits, days, places, spacing } = layout.meta;
    if (spacing === "date" || !layout.xaxis.range) return;
    const [from, to] = layout.xaxis.range;
    const seen = places.map((each, index) => index).filter((index) => places[index] >= from && places[index] <= to);
    const most = Math.max(2, Math.floor(width / 78));
    const apart = (to - from) / most;
    const named = [];
    for (const index of seen) {
      if (!named.length || places[index] - places[named.at(-1)] >= apart) named.push(index);
    }
    layout.xaxis.tickvals = named.map((index) => places[index]);
    layout.xaxis.ticktext = named.map((index) => `${commits[index]}<br>${days[index]}`);
  }

  // Labels stand next to their commit: changes in two lanes over the plot, marks in their strip. Which come first in the
  // figure are more important; one that finds no room is hidden until the reader comes closer.
  function makeRoom(layout, width) {
    if (!layout.xaxis.range) return;
    const [from, to] = layout.xaxis.range.map(place);
    const at = (label) => ((place(label.x) - from) / (to - from)) * width;
    const signs = (layout.annotations ?? []).filter((label) => label.name === "mark").map((label) => [at(label) - 6, at(label) + 6]);
    const taken = { change: Array.from({ length: LANES }, () => []), mark: [signs] };
    pen.font = `11px ${layout.template.layout.font.family}`;
    for (const label of layout.annotations ?? []) {
      if (!(label.name in taken)) continue;
      const x = at(label);
      const size = pen.measureText(label.text.replace(/&(amp|lt|gt);/g, "x")).width + 8;
      const room = Math.abs(label.xshift ?? 0);
      const onLeft = x + room + size > width;
      const [start, end] = onLeft ? [x - room - size, x - room] : [x + room, x + room + size];
      const lanes = taken[label.name];
      const lane = lanes.findIndex((spans) => spans.every(([low, high]) => end < low || start > high));
      label.visible = x >= -1 && x <= width + 1 && start >= 0 && lane >= 0;
      if (!label.visible) continue;
      lanes[lane].push([start, end]);
      label.xanchor = onLeft ? "right" : "left";
      label.xshift = onLeft ? -room : room;
      if (label.name === "change") label.yshift = -lane * LANE;
    }
  }

  function widthOf(layout) {
    const { l, r } = { ...layout.template.layout.margin, ...layout.margin };
    return plot.clientWidth - l - r;
  }

  plot.addEventListener("warpwatch:layout", ({ detail: { layout } }) => {
    if (plot.layout?.xaxis?.range && plot.dataset.drawn) layout.xaxis.range = plot.layout.xaxis.range;
    nameCommits(layout, widthOf(layout));
    makeRoom(layout, widthOf(layout));
  });

  chart.addEventListener("warpwatch:drawn", ({ detail: { Plotly, plot, redraw } }) => {
    let asked = null;
    let busy = false;

    async function follow() {
      if (busy) return;
      busy = true;
      try {
        if (plot.layout.xaxis.autorange) await Plotly.relayout(plot, { "xaxis.range": wholeRange(plot.layout) });
        const layout = { ...plot.layout, xaxis: { ...plot.layout.xaxis }, annotations: (plot.layout.annotations ?? []).map((each) => ({ ...each })) };
        nameCommits(layout, widthOf(layout));
        makeRoom(layout, widthOf(layout));
        const { tickvals, ticktext } = layout.xaxis;
        await Plotly.relayout(plot, { annotations: layout.annotations, ...(tickvals ? { "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext } : {}) });
      } finally {
        busy = false;
      }
      refine();
    }

    // A long history comes thinned: what the reader looks at closely is fetched anew, with all its points.
    let fetched = windowOf(); // what the figure at hand was made for
    let complete = null; // the range of which it has every point
    async function refine() {
      const here = new URL(location.href).searchParams;
      const [from, to] = plot.layout.xaxis.range.map(place);
      const hasAll = complete !== null && from >= complete[0] && to <= complete[1];
      if (!chart.dataset.figureUrl || !plot.layout.meta.thinned || hasAll || fetched === windowOf()) return;
      asked?.abort();
      asked = new AbortController();
      fetched = windowOf();
      chart.setAttribute("aria-busy", "true");
      try {
        const url = new URL(chart.dataset.figureUrl, location.href);
        for (const name of ["x", "y", "unit", "from", "to"]) if (here.has(name)) url.searchParams.set(name, here.get(name));
        for (const key of here.getAll("with")) url.searchParams.append("with", key);
        const answer = await fetch(url, { signal: asked.signal });
        if (!answer.ok) return; // the coarse figure stays, and is right as far as it goes
        const figure = await answer.json();
        await redraw(figure);
        ring();
        complete = completeRange();
        document.querySelector("[data-drawn-points]")?.replaceChildren(figure.layout.meta.said);
      } catch (error) {
        if (error.name !== "AbortError") throw error;
      } finally {
        chart.removeAttribute("aria-busy");
      }
    }

    function windowOf() {
      const here = new URL(location.href).searchParams;
      return `${here.get("from") ?? ""}…${here.get("to") ?? ""}`;
    }

    function completeRange() {
      return plot.layout.meta.whole_inside ? plot.layout.xaxis.range.map(place) : null;
    }

    function wholeRange(layout) {
      const [first, last] = [layout.meta.places[0], layout.meta.places.at(-1)].map(place);
      const room = (last - first) * 0.015 + (layout.meta.spacing === "date" ? 0 : 0.5);
      const ends = [first - room, last + room];
      return layout.meta.spacing === "date" ? ends.map((each) => new Date(each).toISOString()) : ends;
    }

    function ring(run = panel?.querySelector("[data-run]")?.dataset.run) {
      if (!run) return;
      const ringed = plot.data.findIndex((trace) => trace.name === "chosen");
      const own = plot.data.find((trace) => trace.legendgroup === "own" && trace.customdata);
      const index = own ? own.customdata.findIndex((each) => run.startsWith(each)) : -1;
      Plotly.restyle(plot, { x: [index < 0 ? [] : [own.x[index]]], y: [index < 0 ? [] : [own.y[index]]] }, [ringed]);
    }

    plot.on("plotly_relayout", (changed) => {
      if (Object.keys(changed).some((name) => name.startsWith("xaxis.range") || name.startsWith("xaxis.autorange"))) follow();
    });
    // Back to everything, also where the page was opened on a part.
    plot.on("plotly_doubleclick", () => {
      Plotly.relayout(plot, { "xaxis.range": wholeRange(plot.layout) });
    });
    plot.on("plotly_click", async (event) => {
      const run = event.points.map((each) => each.customdata).find((each) => typeof each === "string");
      if (!run) return;
      await show(run);
      ring();
    });
    panel?.addEventListener("warpwatch:point", () => ring());
    complete = completeRange();
    ring();
    new ResizeObserver(() => follow()).observe(plot);
  });

  async function show(run, { focus = false } = {}) {
    if (!panel?.dataset.url) return; // an exported site has no server
    const url = new URL(panel.dataset.url, location.href);
    url.searchParams.set("run", run);
    panel.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url);
      if (!answer.ok) {
        panel.querySelector("[data-said]")?.replaceChildren("That point is another series’ alone: this one was not measured in its run.");
        return;
      }
      const fragment = new DOMParser().parseFromString(await answer.text(), "text/html");
      // Its copy button stays: page.js has taught it to copy.
      const button = panel.querySelector("[data-copy]");
      if (button) fragment.querySelector("[data-copy]")?.replaceWith(button);
      panel.replaceChildren(...fragment.body.childNodes);
      panel.dispatchEvent(new CustomEvent("warpwatch:inserted", { bubbles: true }));
      const here = new URL(location.href);
      here.searchParams.set("run", panel.querySelector("[data-run]").dataset.run);
      history.replaceState(null, "", here);
      panel.dispatchEvent(new CustomEvent("warpwatch:point"));
      if (focus) panel.querySelector("[data-step]")?.focus();
      else panel.scrollIntoView({ block: "nearest" });
    } finally {
      panel.removeAttribute("aria-busy");
    }
  }

  // The panel's own "older" and "newer", and the links of the table of points, stay on the page.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-point]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const step = link.dataset.step;
    show(link.dataset.point, { focus: Boolean(step) }).then(() => {
      if (step) (panel.querySelector(`[data-step="${step}"]`) ?? panel.querySelector("[data-step]"))?.focus();
    });
  });
})();
