// Behaviour of every page: filters that apply at once, tables that sort, commands that copy.

// On a phone the row of pages is wider than the screen: the current one is brought into view.
const tab = document.querySelector(".ww-tabs [aria-current]");
if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;

// Asked of the document, since a page's content may be replaced (static/measurement.js). A filter left open stays out of
// the URL, but for one whose empty choice is another than none.
document.addEventListener("formdata", (event) => {
  const form = event.target;
  if (!form.matches("[data-filters]")) return;
  const kept = new Set([...form.querySelectorAll("[data-keep-empty]")].map((each) => each.name));
  for (const [name, value] of [...event.formData.entries()]) {
    if (!value && !kept.has(name)) event.formData.delete(name);
  }
  const order = new URLSearchParams(location.search).get("sort");
  if (order && !event.formData.has("sort")) event.formData.set("sort", order);
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-filters] select")) event.target.form.requestSubmit();
});

// `sort` in the URL names a column by its words, with a minus before them where the largest stands first.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const headers = [...table.tHead.rows[0].cells];
  const names = headers.map((header) => header.textContent.trim().toLowerCase().replaceAll(" ", "-"));
  const sort = (column, descending) => {
    for (const other of headers) other.removeAttribute("aria-sort");
    headers[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(a.cells[column], b.cells[column]) * (descending ? -1 : 1));
    table.tBodies[0].append(...rows);
  };
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "ww-sort";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const descending = header.getAttribute("aria-sort") === "ascending";
      sort(column, descending);
      const here = new URL(location.href);
      here.searchParams.set("sort", `${descending ? "-" : ""}${names[column]}`);
      history.replaceState(null, "", here);
    });
  });
  const asked = new URLSearchParams(location.search).get("sort") ?? "";
  const column = names.indexOf(asked.replace(/^-/, ""));
  if (column >= 0) sort(column, asked.startsWith("-"));
}

function compare(a, b) {
  if (a.dataset.value !== undefined && b.dataset.value !== undefined) {
    return Number(a.dataset.value) - Number(b.dataset.value);
  }
  return a.textContent.trim().localeCompare(b.textContent.trim(), undefined, { numeric: true });
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const said = button.textContent;
  button.addEventListener("click", async () => {
    const source = document.querySelector(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // Without permission the text is at least selected, one key away.
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = said), 2000);
  });
}
