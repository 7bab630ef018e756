// Saves an SVG as a PNG of twice its size, on the page's own background.
window.warpwatchPicture = async (svg, width, height, name) => {
  const image = new Image();
  image.src = svg.startsWith("data:") ? svg : `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ww-surface");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await new Promise((done) => canvas.toBlob(done, "image/png")));
  link.download = `${name}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};

// A small chart of the page itself: its colours are of the style sheet, which a picture does not have.
for (const button of document.querySelectorAll("[data-picture-of]")) {
  button.addEventListener("click", () => {
    const svg = document.querySelector(button.dataset.pictureOf);
    const copy = svg.cloneNode(true);
    const parts = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((part, index) => {
      const look = getComputedStyle(parts[index]);
      for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity"]) part.setAttribute(name, look.getPropertyValue(name));
    });
    const { width, height } = svg.getBoundingClientRect();
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    window.warpwatchPicture(new XMLSerializer().serializeToString(copy), width, height, document.title);
  });
}
