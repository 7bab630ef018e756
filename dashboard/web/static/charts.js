// Draws the figures that the page brings as JSON. Plotly is fetched when the first of them comes near the screen;
// until then the page is complete but for a frame of the right height.
(() => {
  const plotlyUrl = document.currentScript.dataset.plotly;
  let plotly = null;

  // Plotly writes style attributes, which our policy refuses. The same text through the CSSOM is a script's doing, and
  // scripts are ours: so none needs 'unsafe-inline'.
  function styleThroughCssom() {
    const setAttribute = Element.prototype.setAttribute;
    Element.prototype.setAttribute = function (name, value) {
      if (String(name).toLowerCase() === "style" && this.style) this.style.cssText = value;
      else setAttribute.call(this, name, value);
    };
  }

  // So with the few rules that plotly adds to the sheet of a style element, which it would make if there were none.
  function takeRules() {
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets.push(sheet);
    const holder = document.createElement("meta");
    holder.id = "plotly.js-style-global";
    Object.defineProperty(holder, "sheet", { value: sheet });
    document.head.append(holder);
  }

  function load() {
    if (!plotly) {
      styleThroughCssom();
      takeRules();
    }
    plotly ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = plotlyUrl;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => reject(new Error(`could not load ${plotlyUrl}`));
      document.head.append(script);
    });
    return plotly;
  }

  // Figures come in the colours of the light theme and without a template: both themes' are in the page once.
  const themes = JSON.parse(document.getElementById("figure-themes").textContent);

  function inDark(value, name) {
    if (typeof value === "string") return /color(scale)?$/.test(name) ? (themes.dark[value] ?? value) : value;
    if (["x", "y", "z", "text", "customdata", "meta"].includes(name)) return value; // long, and without colours
    if (Array.isArray(value)) return value.map((each) => inDark(each, name));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inDark(each, key)]));
    }
    return value;
  }

  function themed(figure, plot) {
    const theme = document.documentElement.dataset.bsTheme;
    const copy = theme === "dark" ? inDark(figure, "") : structuredClone(figure);
    copy.layout.template = themes.templates[theme];
    const axis = copy.layout.xaxis;
    axis.nticks = Math.max(3, Math.floor(plot.clientWidth / (axis.type === "category" ? 90 : 110)));
    if (plot.clientWidth < 500) {
      copy.layout.margin = { ...copy.layout.margin, l: 48, r: 6 };
      copy.layout.yaxis.title = { text: "" }; // the heading above names the metric
    }
    plot.dispatchEvent(new CustomEvent("warpwatch:layout", { detail: copy })); // a page's own script may add to it
    return copy;
  }

  async function draw(chart) {
    const plot = chart.querySelector(".ww-plot");
    let figure = JSON.parse(chart.querySelector("script[type='application/json']").textContent);
    const config = { responsive: true, displayModeBar: false, doubleClick: "reset" };
    let Plotly;
    try {
      Plotly = await load();
    } catch (error) {
      plot.textContent = "The figure's library could not be loaded; the tables below have the numbers.";
      throw error;
    }
    performance.mark("warpwatch:figure");
    const first = themed(figure, plot);
    await Plotly.newPlot(plot, first.data, first.layout, config);
    plot.dataset.drawn = document.documentElement.dataset.bsTheme;
    performance.mark("warpwatch:drawn");
    performance.measure("warpwatch:draw", "warpwatch:figure", "warpwatch:drawn");
    const redraw = async (next = figure) => {
      figure = next;
      const again = themed(figure, plot);
      // What the reader did to the figure outlives the change of colours.
      for (const name of ["xaxis", "yaxis"]) {
        if (plot.layout[name].autorange === false || !plot.layout[name].autorange) {
          again.layout[name].range = plot.layout[name].range;
        }
      }
      again.data.forEach((trace, index) => {
        const before = plot.data.find((each) => each.name && each.name === trace.name) ?? plot.data[index];
        trace.visible = before?.visible ?? true;
      });
      await Plotly.react(plot, again.data, again.layout, config);
      plot.dataset.drawn = document.documentElement.dataset.bsTheme;
      plot.dispatchEvent(new CustomEvent("warpwatch:redrawn"));
    };
    document.addEventListener("warpwatch:theme", function onTheme() {
      if (plot.isConnected) redraw();
      else document.removeEventListener("warpwatch:theme", onTheme); // a panel or a row that has been closed
    });
    plot.on("plotly_afterplot", () => scaleOnPaper(plot));
    plot.on("plotly_click", (event) => {
      const [series, run] = [event.points[0].customdata ?? []].flat(); // the run of the point, where the figure knows it
      if (!series || !chart.dataset.seriesUrl) return;
      const page = chart.dataset.seriesUrl.replace(/SERIES(?=(\.html)?$)/, series);
      location.assign(run ? `${page}?${new URLSearchParams({ run })}` : page);
    });
    for (const button of document.querySelectorAll("[data-picture]")) {
      const { width, height } = plot._fullLayout;
      button.addEventListener("click", async () => {
        if (button.dataset.picture !== "png") return Plotly.downloadImage(plot, { format: "svg", width, height, filename: document.title });
        // Plotly's own PNG goes through a blob's address, which our policy refuses as an image.
        return window.warpwatchPicture(await Plotly.toImage(plot, { format: "svg", width, height }), width, height, document.title);
      });
    }
    if ("range" in chart.dataset) plot.on("plotly_relayout", () => keepRange(plot));
    chart.dispatchEvent(new CustomEvent("warpwatch:drawn", { detail: { Plotly, plot, redraw } }));
  }

  // The width of the paper is unknown before the page is laid out on it: there the figure is scaled, not drawn anew.
  function scaleOnPaper(plot) {
    const isPrinting = document.documentElement.hasAttribute("data-printing");
    const { width, height } = plot._fullLayout;
    plot.querySelector(".svg-container").style.aspectRatio = isPrinting ? `${width} / ${height}` : "";
    for (const svg of plot.querySelectorAll(".main-svg")) {
      if (isPrinting) svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      else svg.removeAttribute("viewBox");
    }
  }

  // The visible commits go into the URL (and into the links that keep them), so that a zoom can be shared.
  function keepRange(plot) {
    const { commits, places, spacing } = plot.layout.meta;
    const { range, autorange } = plot.layout.xaxis;
    let [first, last] = [0, commits.length - 1];
    if (!autorange) {
      const number = (place) => (spacing === "date" ? new Date(asUtc(place)).getTime() : Number(place));
      const [from, to] = range.map(number);
      first = places.findIndex((place) => number(place) >= from);
      last = places.findLastIndex((place) => number(place) <= to);
    }
    const whole = autorange || first < 0 || last < first || (first === 0 && last === commits.length - 1);
    const change = (url) => {
      for (const [name, commit] of [["from", commits[first]], ["to", commits[last]]]) {
        if (whole) url.searchParams.delete(name);
        else url.searchParams.set(name, commit);
      }
      return url;
    };
    history.replaceState(null, "", change(new URL(location.href)));
    for (const link of document.querySelectorAll("a[data-keeps-range]")) link.href = change(new URL(link.href));
  }

  // Plotly gives dates without a zone ("2025-01-02 03:04"), which browsers would take for local time.
  function asUtc(date) {
    const text = String(date).replace(" ", "T");
    if (/(Z|[+-]\d\d:\d\d)$/.test(text)) return text;
    return text.includes("T") ? `${text}Z` : `${text}T00:00Z`;
  }

  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    },
    { rootMargin: "300px" },
  );
  const watch = (part) => part.querySelectorAll("[data-chart]").forEach((chart) => watcher.observe(chart));
  watch(document);
  document.addEventListener("warpwatch:inserted", (event) => watch(event.target)); // what another script has put in
})();
