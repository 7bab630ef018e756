// A kernel opens and closes in its place; the address keeps what is open. Without this the link loads the page anew.

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-opens]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const kernel = link.closest("tbody").id;
  let answer;
  try {
    answer = await fetch(link.href);
    if (!answer.ok) throw new Error(answer.statusText);
  } catch {
    location.assign(link.href); // the browser says what is wrong better than we can
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.getElementById("kernels").replaceWith(page.getElementById("kernels"));
  history.replaceState(null, "", link.href);
  document.getElementById(kernel).querySelector("a[data-opens]").focus();
});
