// Opens a row of a comparison under itself. Without this its link leads to a page that says the same.
(() => {
  const copy = async (button) => {
    const said = button.textContent;
    const source = document.querySelector(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = said), 2000);
  };

  function part(link) {
    const url = new URL(link.href);
    url.searchParams.set("part", "1");
    return url;
  }

  async function open(link) {
    const row = link.closest("tr");
    const opened = document.createElement("tr");
    opened.className = "ww-opened-row";
    opened.dataset.keyList = "off"; // j and k walk from row to row
    const cell = opened.insertCell();
    cell.colSpan = row.cells.length;
    cell.setAttribute("role", "status");
    cell.textContent = "Loading …";
    row.after(opened);
    link.setAttribute("aria-expanded", "true");
    try {
      const answer = await fetch(part(link));
      if (!answer.ok) throw new Error(`${answer.status}`);
      cell.innerHTML = await answer.text(); // made by our own template, which escapes what came from outside
      cell.removeAttribute("role");
      cell.dispatchEvent(new CustomEvent("warpwatch:inserted", { bubbles: true }));
      for (const button of cell.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));
    } catch {
      cell.replaceChildren("It could not be loaded. ");
      const again = document.createElement("a");
      again.href = link.href;
      again.textContent = "Open as a page";
      cell.append(again);
    }
  }

  function close(link) {
    link.closest("tr").nextElementSibling?.remove();
    link.setAttribute("aria-expanded", "false");
  }

  // A click anywhere on a row opens it, but on what has a use of its own, and at the end of a selection.
  document.querySelector(".ww-compared tbody")?.addEventListener("click", (event) => {
    if (event.target.closest("a, button, summary, .ww-opened-row") || getSelection().toString()) return;
    event.target.closest("tr").querySelector("a[data-open]").click();
  });

  for (const link of document.querySelectorAll("a[data-open]")) {
    link.setAttribute("role", "button");
    link.setAttribute("aria-expanded", "false");
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of its own
      event.preventDefault();
      if (link.getAttribute("aria-expanded") === "true") close(link);
      else open(link);
    });
    link.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      link.click();
    });
  }
})();
