// Single keys: j and k walk lists, o opens, c compares, and whatever else a page declares. Nothing is bound in scripts of
// pages; markup declares it, and the dialog behind `?` lists what it finds:
//
//   a list      every table's rows and every `ul[data-key-list] > li` in <main>; `data-key-list="off"` on a table or any
//               element around it takes it out. Anything else is an item by `data-key-item`, an alert's card for instance;
//               a table inside such an item is no list of its own.
//   an item     j/k give it the focus (so a screen reader says it, and the outline shows it). o clicks its
//               `[data-key-open]`, else its first link; Enter does so too while the item itself has the focus.
//               An address that ends in #ID of an item starts there.
//   a key       `data-key="x"` with `data-key-says="Mark"` on a button, link, checkbox or field. Pressed, the one inside
//               the current item counts, else one that stands in no item. It is clicked; a text field or a choice gets
//               the focus instead. Keys are case-sensitive; modifiers are left to the browser.
//   a script's  `data-keys='[{"key": "n", "says": "Next point"}]'` on any element: it gets the event "warpwatch:key",
//               which bubbles, with detail {key, item}; item is the current one or null.
//
// Taken on every page: / ? j k o d, and c and t by the tabs: to the comparison, or the row's own; triage, the regressions.
// They rest while one types, in a dialog, with Ctrl, Alt or Meta, and for good when the reader switches them off in the
// dialog (WCAG 2.1.4); a screen reader in browse mode keeps its own j, k, o and the rest, since it never passes them on.
(() => {
  const STORED = "warpwatch-keys";
  const dialog = document.getElementById("keys");
  const main = document.getElementById("main");
  let current = null;

  // What every page has; `when` says whether this one has a use for it.
  const always = [
    { key: "/", says: "Search", does: () => focusField(document.querySelector("[data-search] input")),
      when: () => document.querySelector("[data-search]") },
    { key: "j", says: "Next in the list", does: () => step(1), when: () => items().length },
    { key: "k", says: "Previous in the list", does: () => step(-1), when: () => items().length },
    { key: "o", says: "Open (also Enter)", does: () => open(), when: () => items().some(opener) },
    { key: "d", says: "Colours: light, dark or as the system has it",
      does: () => document.querySelector("[data-theme-toggle]").click(), when: () => true },
    { key: "?", says: "These keys", does: () => show(), when: () => true },
  ];

  function isOn() {
    try {
      return localStorage.getItem(STORED) !== "off";
    } catch {
      return true; // storage is refused in some private windows
    }
  }

  function items() {
    const found = main.querySelectorAll("[data-key-item], [data-key-list]:not([data-key-list='off']) > li, tbody > tr");
    return [...found].filter(
      (each) =>
        !each.closest("[data-key-list='off']") &&
        (each.matches("[data-key-item]") || !each.closest("[data-key-item]")) &&
        each.checkVisibility(),
    );
  }

  // The item in which the focus is, else the last one: a click outside the list does not lose the place.
  function here() {
    const all = items();
    const focused = all.find((each) => each.contains(document.activeElement));
    if (focused) current = focused;
    return all.includes(current) ? current : null;
  }

  function go(item) {
    if (!item) return;
    current = item;
    if (!item.hasAttribute("tabindex")) item.tabIndex = -1;
    item.focus({ focusVisible: true });
    item.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const all = items();
    const place = all.indexOf(here());
    // Without a place j begins at the first that can be seen, so that it does not leave what one reads.
    if (place < 0) go(all.find((each) => each.getBoundingClientRect().top >= 0) ?? all.at(-1));
    else go(all[Math.min(all.length - 1, Math.max(0, place + by))]);
  }

  const opener = (item) => item?.querySelector("[data-key-open]") ?? item?.querySelector("a[href]");
  const open = () => opener(here())?.click();

  function focusField(field) {
    field?.focus();
    field?.select?.();
  }

  // The current item's own control, else one that stands in no item.
  function control(key) {
    const all = [...document.querySelectorAll("[data-key]")].filter((each) => each.dataset.key === key && each.checkVisibility());
    const inside = here();
    const known = new Set(items());
    const isLoose = (each) => {
      for (let at = each; at; at = at.parentElement) if (known.has(at)) return false;
      return true;
    };
    return all.find((each) => inside?.contains(each)) ?? all.find(isLoose);
  }

  function use(element) {
    const isField = element.matches("select, textarea, input:not([type=checkbox], [type=radio], [type=button], [type=submit])");
    if (isField) focusField(element);
    else element.click();
  }

  const scripted = () =>
    [...document.querySelectorAll("[data-keys]")].flatMap((element) =>
      JSON.parse(element.dataset.keys).map((each) => ({ ...each, element })),
    );

  // Text is being entered, or a widget (a choice, a dialog) has keys of its own.
  function isTaken(event) {
    const at = event.target;
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return true;
    if (document.querySelector("dialog[open]")) return true;
    if (!(at instanceof Element)) return false;
    return at.isContentEditable || at.matches("select, textarea, input:not([type=checkbox], [type=radio], [type=button], [type=submit])");
  }

  document.addEventListener("keydown", (event) => {
    if (!isOn() || isTaken(event)) return;
    if (event.repeat && !"jk".includes(event.key)) return;
    const { key } = event;
    if (key === "Enter") {
      // Only where the item itself has the focus: a link or a button in it has an Enter of its own.
      if (event.target !== current || !opener(current)) return;
      event.preventDefault();
      open();
      return;
    }
    const common = always.find((each) => each.key === key && each.when());
    const declared = common ? null : control(key);
    const script = common || declared ? null : scripted().find((each) => each.key === key);
    if (!common && !declared && !script) return;
    event.preventDefault();
    if (common) common.does();
    else if (declared) use(declared);
    else script.element.dispatchEvent(new CustomEvent("warpwatch:key", { bubbles: true, detail: { key, item: here() } }));
  });

  // --- the dialog ---

  function listed() {
    const named = new Map();
    const add = (key, says) => named.has(key) || named.set(key, says);
    for (const each of always) if (each.key !== "?" && each.key !== "d" && each.when()) add(each.key, each.says);
    for (const each of document.querySelectorAll("[data-key]")) {
      add(each.dataset.key, each.dataset.keySays ?? each.getAttribute("aria-label") ?? each.textContent.trim());
    }
    for (const each of scripted()) add(each.key, each.says);
    for (const each of always) if (each.when()) add(each.key, each.says);
    return named;
  }

  function show() {
    const list = dialog.querySelector("dl");
    list.replaceChildren();
    for (const [key, says] of listed()) {
      const term = document.createElement("dt");
      const kbd = document.createElement("kbd");
      kbd.textContent = key;
      term.append(kbd);
      const meaning = document.createElement("dd");
      meaning.textContent = says;
      const pair = document.createElement("div");
      pair.append(term, meaning);
      list.append(pair);
    }
    dialog.querySelector("[data-keys-on]").checked = isOn();
    dialog.showModal();
  }

  // Assistive technology hears of the keys only while they work.
  function announce() {
    for (const each of document.querySelectorAll("[data-key], [data-search] input")) {
      if (isOn()) each.setAttribute("aria-keyshortcuts", each.dataset.key ?? "/");
      else each.removeAttribute("aria-keyshortcuts");
    }
  }

  for (const button of document.querySelectorAll("[data-keys-show]")) button.addEventListener("click", show);
  dialog.querySelector("[data-keys-on]").addEventListener("change", (event) => {
    try {
      localStorage.setItem(STORED, event.target.checked ? "on" : "off");
    } catch {
      // then they stay as they are
    }
    announce();
  });
  // A click on what lies behind closes it, as Escape does.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  announce();
  const named = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named && items().includes(named)) current = named;
})();
