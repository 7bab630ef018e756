// A row of the strip that is pointed at, or has the focus, shows its point in the figure; names stand where there is room.
(() => {
  const plot = document.querySelector(".ww-roofline .ww-plot");
  if (!plot) return;

  function show(row) {
    if (!plot.dataset.drawn) return; // not yet there
    const key = row.dataset.point;
    // The last trace that has the point is the full one: faint ones and trails are drawn before.
    for (let curveNumber = plot.data.length - 1; curveNumber >= 0; curveNumber -= 1) {
      const pointNumber = plot.data[curveNumber].customdata?.indexOf(key) ?? -1;
      if (pointNumber < 0 || plot.data[curveNumber].opacity < 1 || plot.data[curveNumber].marker?.opacity < 1) continue;
      window.Plotly.Fx.hover(plot, [{ curveNumber, pointNumber }]);
      return;
    }
    window.Plotly.Fx.unhover(plot);
  }

  // A kernel's name stands next to its point where no point and no other name is.
  function nameWithRoom(Plotly) {
    const place = plot.data.findIndex((trace) => trace.name === "names");
    if (place < 0) return;
    const { x, y } = plot.data[place];
    names ??= plot.data[place].text;
    const { xaxis, yaxis } = plot._fullLayout;
    const marks = plot.data
      .filter((trace) => trace.mode === "markers" && trace.visible !== "legendonly")
      .flatMap((trace) => trace.x.map((each, index) => [xaxis.d2p(each), yaxis.d2p(trace.y[index])]))
      .filter(([across]) => Number.isFinite(across)); // entries of the key have no place
    const taken = [];
    const sides = [];
    const shown = names.map((name, index) => {
      const [at, middle] = [xaxis.d2p(x[index]), yaxis.d2p(y[index])];
      const size = 6 * name.length;
      for (const [side, from, to] of [["middle right", at + 5, at + 5 + size], ["middle left", at - 5 - size, at - 5]]) {
        const [top, foot] = [middle - 7, middle + 7];
        const isInside = from >= 0 && to <= xaxis._length && top >= 0 && foot <= yaxis._length;
        const isFree = taken.every((box) => box.to < from || box.from > to || box.foot < top || box.top > foot);
        const hidesNone = marks.every(([across, down]) => across < from - 2 || across > to + 4 || down < top || down > foot);
        if (!isInside || !isFree || !hidesNone) continue;
        taken.push({ from, to, top, foot });
        sides[index] = side;
        return name;
      }
      return "";
    });
    const textposition = [names.map((_, index) => sides[index] ?? "middle right")];
    Plotly.restyle(plot, { visible: true, text: [shown], textposition }, [place]);
  }

  let names = null;
  // On a phone the roofs' names are wider than the figure; the list below it has them.
  plot.addEventListener("warpwatch:layout", ({ detail: { layout } }) => {
    if (plot.clientWidth < 500) layout.annotations = [];
  });
  plot.closest("[data-chart]").addEventListener("warpwatch:drawn", ({ detail: { Plotly } }) => {
    nameWithRoom(Plotly);
    plot.on("plotly_relayout", () => nameWithRoom(Plotly));
    plot.addEventListener("warpwatch:redrawn", () => nameWithRoom(Plotly));
    new ResizeObserver(() => nameWithRoom(Plotly)).observe(plot);
  });

  for (const row of document.querySelectorAll("[data-point]")) {
    row.addEventListener("pointerenter", () => show(row));
    row.addEventListener("focusin", () => show(row));
  }
})();
