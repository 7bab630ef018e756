// The colour mode: the reader's choice if there is one, else the system's. Runs before the first paint.
(() => {
  const modes = ["auto", "light", "dark"];
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      const stored = localStorage.getItem("warpwatch-theme");
      return modes.includes(stored) ? stored : "auto";
    } catch {
      return "auto"; // storage is refused in some private windows
    }
  }

  let choice = chosen();
  let printing = false;
  document.documentElement.dataset.hasScript = ""; // what does nothing without a script is not shown without one

  function apply() {
    const mode = printing ? "light" : choice === "auto" ? (system.matches ? "dark" : "light") : choice;
    document.documentElement.toggleAttribute("data-printing", printing);
    document.documentElement.setAttribute("data-bs-theme", mode);
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      const name = { auto: "Auto", light: "Light", dark: "Dark" }[choice];
      button.querySelector("[data-theme-name]").textContent = name;
      button.setAttribute("aria-label", `Colours: ${name}. Change`);
    }
    document.dispatchEvent(new CustomEvent("warpwatch:theme"));
  }

  apply();
  system.addEventListener("change", apply);
  // Paper is white. Before it is laid out figures are drawn anew, for it is narrow, too.
  const print = (now) => {
    if (now === printing) return;
    printing = now;
    apply();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      button.addEventListener("click", () => {
        choice = modes[(modes.indexOf(choice) + 1) % modes.length];
        try {
          localStorage.setItem("warpwatch-theme", choice);
        } catch {
          // then it lasts for this page
        }
        apply();
      });
    }
  });
})();
