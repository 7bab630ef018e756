// Triage without the mouse: keys act on what is selected, else on the card that has the focus, and the place in the list
// survives the page that comes after. The keys themselves are pressed by keys.js; forms do the work.

const bulk = document.getElementById("bulk");
const picks = [...document.querySelectorAll(".ww-pick")];
const PLACE = "warpwatch-triage-place";

function showSelection() {
  const picked = picks.filter((each) => each.checked).length;
  if (!bulk) return;
  const all = bulk.querySelector("[data-pick-all]");
  all.checked = picked === picks.length;
  all.indeterminate = picked > 0 && picked < picks.length;
  bulk.querySelector("[data-picked]").textContent = picked ? `${picked} selected` : "All of this page";
  for (const button of bulk.querySelectorAll("button")) button.disabled = !picked;
  // One key, one meaning: with a selection it is the selection's.
  for (const each of bulk.querySelectorAll("[data-bulk-key]")) {
    if (picked) each.dataset.key = each.dataset.bulkKey;
    else delete each.dataset.key;
  }
  const taken = new Set([...bulk.querySelectorAll("[data-bulk-key]")].map((each) => each.dataset.bulkKey));
  for (const each of document.querySelectorAll(".ww-actions [data-key], .ww-actions [data-key-of-card]")) {
    const key = each.dataset.keyOfCard ?? each.dataset.key;
    if (!taken.has(key)) continue;
    each.dataset.keyOfCard = key;
    if (picked) delete each.dataset.key;
    else each.dataset.key = key;
  }
}

for (const pick of picks) pick.addEventListener("change", showSelection);
bulk?.querySelector("[data-pick-all]").addEventListener("change", (event) => {
  for (const pick of picks) pick.checked = event.target.checked;
  showSelection();
});
addEventListener("pageshow", showSelection); // a page that comes back from the browser's memory keeps its ticks
showSelection();

// What is opened for writing is written in next. At once, not at the event "toggle", which comes later: the next letter
// that somebody types would be a key of the page, and a decision.
for (const details of document.querySelectorAll(".ww-say")) {
  details.querySelector("summary").addEventListener("click", (event) => {
    event.preventDefault();
    details.open = !details.open;
    if (details.open) details.querySelector("textarea").focus();
  });
  details.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      details.open = false;
      details.querySelector("summary").focus();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      details.querySelector("button[type=submit]").click();
    }
  });
}

// After a decision the list is another one: the focus goes to the card that was decided, or to what took its place.
const cards = [...document.querySelectorAll("[data-key-item]")];
for (const form of [bulk, ...document.querySelectorAll(".ww-actions")]) {
  form?.addEventListener("submit", () => {
    const card = form === bulk ? picks.find((each) => each.checked)?.closest("[data-key-item]") : form.closest("[data-key-item]");
    const focused = document.activeElement?.closest("[data-key-item]");
    const place = cards.indexOf(focused ?? card);
    try {
      sessionStorage.setItem(PLACE, JSON.stringify({ path: location.pathname, place, id: (focused ?? card)?.id }));
    } catch {
      // then the page begins at its top
    }
  });
}

let before = null;
try {
  before = JSON.parse(sessionStorage.getItem(PLACE));
  sessionStorage.removeItem(PLACE);
} catch {
  // nothing is remembered
}
if (before?.path === location.pathname && cards.length) {
  const card = document.getElementById(before.id) ?? cards[Math.min(Math.max(before.place, 0), cards.length - 1)];
  card.tabIndex = -1;
  card.focus({ focusVisible: true });
}
