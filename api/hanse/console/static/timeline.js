// What is remembered of one job or pool, with what comes live.

import { get, at as quoted } from "./api.js";
import { byColumn, eventTone, fill, h } from "./dom.js";
import { moment, words } from "./fmt.js";

export async function timeline(element, query, { subjects = false, whenRead = () => {} } = {}) {
  let found;
  try { found = await get("events", query); } catch (error) {
    fill(element, h("p", { class: "empty" }, error.message));
    return;
  }
  const events = found.rows.map((row) => byColumn(found.columns, row));
  whenRead(events);
  if (!events.length) { fill(element, h("p", { class: "empty" }, "Nothing is remembered.")); return; }
  const line = (event) => h("li", { "data-kind": event.kind },
    h("time", {}, moment(event.at)), h("span", { class: "dot", "data-tone": eventTone(event) }),
    h("span", {}, subjects && event.job ? h("a", { href: `#/jobs/${quoted(event.job)}` }, event.name || event.job) : null, subjects && event.job ? " " : null,
      words(event.kind), event.message && event.message.toLowerCase() !== words(event.kind) ? h("span", { class: "dim" }, ` · ${event.message}`) : null,
      !subjects && event.pool && !event.message.includes(event.pool) ? h("span", { class: "mute" }, ` · ${event.pool}`) : null));
  fill(element, h("ol", { class: "timeline" }, events.slice(-200).reverse().map(line)),
    found.left_out ? h("p", { class: "mute" }, "Older ones are left out.") : null,
    found.silent.length ? h("p", { class: "mute" }, `${found.silent.join(", ")} did not answer.`) : null);
}
