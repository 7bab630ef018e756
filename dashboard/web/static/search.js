// The search box of the header: what it finds opens under it while one types. The server makes the list, of plain links;
// without this script Enter leads to the same list as a page. The arrows walk the links, Escape closes.
(() => {
  const form = document.querySelector("[data-search]");
  if (!form) return;
  const PAUSE_MS = 120; // between the last key and the question
  const PATIENCE_MS = 400; // until a message says that the answer takes its time
  const input = form.querySelector("input");
  const list = form.querySelector("[data-search-list]");
  const status = form.querySelector("[data-search-status]");
  let asked = null; // what aborts the question under way
  let pause = 0;
  let shown = ""; // the words whose list stands there

  function close() {
    list.hidden = true;
    status.textContent = "";
  }

  function cancel() {
    clearTimeout(pause);
    asked?.abort();
    asked = null;
  }

  const links = () => [...list.querySelectorAll("a")];
  const isWalked = () => list.contains(document.activeElement);

  // Who walks the list keeps the place in it.
  function show(html) {
    const place = isWalked() ? document.activeElement.href : null;
    list.innerHTML = html;
    if (place) (links().find((link) => link.href === place) ?? links()[0] ?? input).focus();
  }

  async function ask(words) {
    cancel();
    const question = (asked = new AbortController());
    const address = new URL(form.action);
    address.search = new URLSearchParams({ q: words, live: "1" });
    const waiting = setTimeout(() => {
      if (isWalked()) return;
      list.textContent = "Searching…";
      say(0);
    }, PATIENCE_MS);
    try {
      const answer = await fetch(address, { signal: question.signal, headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const html = await answer.text();
      if (question !== asked) return;
      clearTimeout(waiting);
      show(html); // our own template's: every name in it is escaped there
      shown = words;
      say(links().length);
    } catch (error) {
      if (error.name === "AbortError") return;
      clearTimeout(waiting);
      show("The search did not answer. Press Enter for the search page.");
      shown = "";
      say(0);
    } finally {
      clearTimeout(waiting);
    }
  }

  function say(count) {
    list.hidden = false;
    status.textContent = count ? `${count} result${count > 1 ? "s" : ""} below; the down arrow goes there` : list.textContent.trim();
  }

  input.addEventListener("input", () => {
    const words = input.value.trim();
    cancel();
    if (!words) close();
    else pause = setTimeout(() => ask(words), PAUSE_MS);
  });
  const reopen = () => {
    if (shown && shown === input.value.trim()) list.hidden = false;
  };
  input.addEventListener("click", reopen);

  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) {
      event.preventDefault(); // else the browser would empty the field
      cancel();
      close();
      input.focus();
      return;
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    reopen();
    const all = links();
    if (list.hidden || !all.length) return;
    event.preventDefault();
    const place = all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    if (place < 0) input.focus();
    else all[Math.min(place, all.length - 1)].focus();
  });

  // Leaving it closes it; so does a click elsewhere, on what takes no focus.
  form.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !form.contains(event.relatedTarget)) close();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!form.contains(event.target)) close();
  });
  form.addEventListener("submit", (event) => {
    cancel();
    if (!input.value.trim()) event.preventDefault();
  });
})();
