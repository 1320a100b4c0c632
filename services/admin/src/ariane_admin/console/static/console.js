// Draws pages anew that ask for it, and lets the keyboard lead through the menu. Pages work without.
"use strict";
const main = () => document.querySelector("main");
// Whether somebody reads or fills in what would be drawn anew.
function inUse() {
  const shown = main(), busy = document.activeElement;
  return String(getSelection()) || shown.querySelector("details[open]") || (shown.contains(busy) && busy.matches("input, select, textarea, summary"));
}
async function refresh() {
  if (!document.hidden && !inUse()) {
    try {
      const answer = await fetch(location.href, { headers: { "X-Refresh": "1" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main");
      if (fresh && !inUse()) main().innerHTML = fresh.innerHTML;
      document.body.classList.remove("stale");
    } catch {
      document.body.classList.add("stale");
    }
  }
  setTimeout(refresh, main().dataset.refresh * 1000);
}
if (main().dataset.refresh) setTimeout(refresh, main().dataset.refresh * 1000);
// Goes on with a change of many parts; the link beside the button stops it there.
const rest = document.querySelector("form[data-by-itself]");
if (rest) rest.requestSubmit();
// A link of `ariane user login-link` has its token where no server sees it; a person sends the form.
const token = document.querySelector("input[name=token]");
if (token && location.hash) {
  token.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  token.form.querySelector("button").focus();
}
let leading = false;
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (leading) {
    leading = false;
    const entry = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (entry) entry.click();
  } else if (event.key === "g") {
    leading = true;
  } else if (event.key === "/") {
    const field = document.querySelector("main form[role=search] input:not([type=hidden])");
    if (field) { event.preventDefault(); field.focus(); }
  }
});
// The page tells of its keys once they work.
document.getElementById("keys").hidden = false;
