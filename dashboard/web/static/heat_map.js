// A kernel's heat map on whatever width there is: commits keep their names where these fit, cells their numbers. On a phone
// a row is labelled by the parameters that differ, on several lines, and ends in its newest number.
(() => {
  const plot = document.querySelector("[data-heat-map] .ww-plot");
  if (!plot) return;

  // "cuda-fp16-b1-s2048" of shapes that all begin with "cuda": "fp16-b1-<br>s2048".
  function short(names) {
    const parts = names.map((name) => name.split(/(?<=[-_., ])/));
    const isShared = (part) => names.length > 1 && parts.every((each) => each.includes(part));
    return parts.map((all) => {
      const own = all.filter((part) => !isShared(part));
      const lines = [""];
      for (const part of own.length ? own : all) {
        if (lines.at(-1) && lines.at(-1).length + part.length > 19) lines.push("");
        lines[lines.length - 1] += part;
      }
      return lines.map((line) => (line.length > 22 ? `${line.slice(0, 21)}…` : line)).slice(0, 3).join("<br>");
    });
  }

  plot.addEventListener("warpwatch:layout", ({ detail: { data, layout } }) => {
    const narrow = plot.clientWidth < 600;
    if (narrow) {
      layout.yaxis.ticktext = short(layout.yaxis.ticktext);
      layout.yaxis.tickfont = { ...layout.yaxis.tickfont, size: 9 };
      layout.margin = { ...layout.margin, r: 38 };
      const label = { xref: "paper", x: 1, xanchor: "left", showarrow: false, font: layout.yaxis.tickfont };
      layout.annotations = layout.meta.newest.map((text, y) => ({ ...label, y, text })); // no room above the columns
    }
    const names = narrow ? 130 : Math.min(330, 7 * Math.max(...layout.yaxis.ticktext.map((name) => name.length)));
    const commits = layout.xaxis.ticktext.length;
    const wide = (plot.clientWidth - names) / commits;
    const apart = Math.max(1, Math.ceil(64 / wide));
    layout.xaxis.tickvals = layout.xaxis.tickvals.filter((place) => place % apart === 0);
    layout.xaxis.ticktext = layout.xaxis.tickvals.map((place) => layout.meta.commits[place]);
    if (!narrow) {
      // A name above the columns stays where it has room until the next one.
      layout.annotations = (layout.annotations ?? []).filter(
        ({ x, text }, place, all) => ((all[place + 1]?.x ?? commits) - x) * wide > 6.2 * text.length + 4,
      );
    }
    const numbers = data.find((trace) => trace.name === "numbers");
    if (numbers && wide < 46) numbers.text = numbers.text.map(() => "");
  });
})();
