// A kernel's heat map on whatever width there is: commits keep their names where these fit, cells their numbers, and on a
// phone shapes are called by their number in the table below.
(() => {
  const plot = document.querySelector("[data-heat-map] .ww-plot");
  if (!plot) return;
  plot.addEventListener("warpwatch:layout", ({ detail: { data, layout } }) => {
    const narrow = plot.clientWidth < 600;
    if (narrow) layout.yaxis.ticktext = layout.yaxis.tickvals.map((row) => String(row + 1));
    const names = narrow ? 30 : Math.min(330, 7 * Math.max(...layout.yaxis.ticktext.map((name) => name.length)));
    const commits = layout.xaxis.ticktext.length;
    const wide = (plot.clientWidth - names) / commits;
    const apart = Math.max(1, Math.ceil(64 / wide));
    layout.xaxis.tickvals = layout.xaxis.tickvals.filter((place) => place % apart === 0);
    layout.xaxis.ticktext = layout.xaxis.tickvals.map((place) => layout.meta.commits[place]);
    const numbers = data.find((trace) => trace.name === "numbers");
    if (numbers && wide < 46) numbers.text = numbers.text.map(() => "");
  });
})();
