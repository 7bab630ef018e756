// A row of the strip that is pointed at, or has the focus, shows its point in the figure.
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

  for (const row of document.querySelectorAll("[data-point]")) {
    row.addEventListener("pointerenter", () => show(row));
    row.addEventListener("focusin", () => show(row));
  }
})();
