// The overview while this machine measures: its banner says how far that is, and when new results are in the history the
// page's content is replaced by what the server now makes of it. The last replacement has no banner, and ends this.
(() => {
  const PAUSE_MS = 2000;
  const main = document.getElementById("main");
  const banner = () => document.getElementById("measurement");

  async function take(address) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer;
  }

  async function replaceContent() {
    const page = new DOMParser().parseFromString(await (await take(location.href)).text(), "text/html");
    const focused = main.contains(document.activeElement) ? document.activeElement.href : null;
    main.replaceChildren(...page.getElementById("main").childNodes);
    if (focused) [...main.querySelectorAll("a")].find((link) => link.href === focused)?.focus();
    document.querySelector(".ww-footer time")?.replaceWith(page.querySelector(".ww-footer time"));
  }

  async function look() {
    const shown = banner();
    try {
      const now = await (await take(shown.dataset.address)).json();
      const isTyping = main.contains(document.activeElement) && document.activeElement.matches("input, select");
      if (now.state === "running" && now.imports === Number(shown.dataset.imports)) {
        shown.querySelector("[data-text]").textContent = now.text;
      } else if (!isTyping) await replaceContent();
    } catch {
      shown.querySelector("[data-text]").textContent = "The dashboard does not answer. Is make run still running?";
    }
    if (banner()?.dataset.state === "running") setTimeout(look, PAUSE_MS);
  }

  setTimeout(look, PAUSE_MS);
})();
