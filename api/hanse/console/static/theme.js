// Dark unless the machine or the person says light; colours for the canvas come from the style sheet.

const KEY = "hanse-theme";
const light = matchMedia("(prefers-color-scheme: light)");
let colours = null;
const listeners = new Set();

function chosen() {
  try { return localStorage.getItem(KEY); } catch { return null; }
}

export function applyTheme() {
  document.documentElement.dataset.theme = chosen() || (light.matches ? "light" : "dark");
  colours = null;
  for (const call of listeners) call();
}

export function switchTheme() {
  const next = document.documentElement.dataset.theme === "light" ? "dark" : "light";
  try { localStorage.setItem(KEY, next); } catch { /* for this visit only */ }
  document.documentElement.dataset.theme = next;
  colours = null;
  for (const call of listeners) call();
}

export const onTheme = (call) => { listeners.add(call); return () => listeners.delete(call); };
light.addEventListener("change", applyTheme);

/** The colours of the style sheet, by name. */
export function palette() {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    colours = {};
    for (const name of ["bg", "bg-2", "bg-3", "line", "line-2", "text", "dim", "mute", "busy", "free", "free-line", "held", "releasing", "broken", "sans"])
      colours[name.replace("-2", "2").replace("-3", "3").replace("free-line", "freeLine")] = style.getPropertyValue(`--${name}`).trim();
  }
  return colours;
}
