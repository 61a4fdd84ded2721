// Elements made of values. Text is only ever set as text, so nothing that a user named can become markup.

/** h("div", { class: "card", onclick: f }, "text", child, …): an element. `null` children and attributes are left out. */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  set(element, attributes || {});
  add(element, children);
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes || {});
  add(element, children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name in element && (name === "value" || name === "disabled" || name === "tabIndex" || name === "checked")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

function add(element, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Set a text only where it differs: a reader of the screen is not told the same again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const $ = (id) => document.getElementById(id);

const TONES = {
  PENDING: "waiting", BOUND: "held", PLACED: "held", STARTING: "held", RUNNING: "busy", STOPPING: "releasing",
  SUCCEEDED: "done", CANCELLED: "done", FAILED: "broken", LOST: "broken",
  healthy: "busy", stale: "broken", detached: "broken", starting: "held", cordoned: "held", draining: "releasing", leaving: "releasing",
};
export const toneOf = (state) => TONES[state] || "waiting";

const EVENT_TONES = {
  SUBMITTED: "waiting", BOUND: "held", PLACED: "held", STARTING: "held", RUNNING: "busy", REFUSED: "broken", STOPPING: "releasing",
  REQUEUED: "broken", ENDED: "done", DETACHED: "broken", SUMMARY_OLD: "broken", CORDONED: "held", REMOVED: "releasing", ATTACHED: "busy",
};
export const eventTone = (event) =>
  event.kind === "ENDED" && /FAILED|LOST/.test(event.message) ? "broken" : EVENT_TONES[event.kind] || "waiting";

export const chip = (state, words) => h("span", { class: "chip", "data-tone": toneOf(state) }, words || state.toLowerCase());

export function bar(parts, total) {
  return h("span", { class: "bar" }, parts.filter(([, value]) => value > 0).map(([tone, value]) =>
    h("i", { "data-tone": tone, style: { width: `${(100 * value) / Math.max(1, total)}%` } })));
}

/** A row as an object by its columns. */
export function byColumn(columns, row) {
  const found = {};
  columns.forEach((name, index) => { found[name] = row[index]; });
  return found;
}

export function toast(text, bad = false) {
  const element = h("div", { class: bad ? "toast bad" : "toast" }, text);
  $("toasts").append(element);
  setTimeout(() => element.remove(), bad ? 9_000 : 4_500);
  while ($("toasts").children.length > 4) $("toasts").firstChild.remove();
}

export const speak = (text) => say($("spoken"), text);

export function tip(x, y, ...children) {
  const element = $("tip");
  if (!children.length) { element.hidden = true; return; }
  fill(element, children);
  element.hidden = false;
  const { width, height } = element.getBoundingClientRect();
  element.style.left = `${Math.min(x + 14, innerWidth - width - 10)}px`;
  element.style.top = `${y + 18 + height > innerHeight ? y - height - 12 : y + 18}px`;
}
