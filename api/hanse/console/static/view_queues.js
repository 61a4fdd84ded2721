// Queues: what each may use and uses, what waits in it, and of what size.

import { at as quoted, get } from "./api.js";
import { bar, byColumn, chip, fill, h } from "./dom.js";
import { n, now, plural, since } from "./fmt.js";
import { later } from "./later.js";
import { listen } from "./store.js";

const REFRESH_MS = 3_000;
const SIZES = [[8, "to 8 GPUs"], [64, "to 64"], [512, "to 512"], [4096, "to 4,096"], [Infinity, "beyond"]];

export function mount(root, [chosen], go) {
  const list = h("div", {}, h("p", { class: "loading" }, "counting"));
  const side = h("section", { class: "card" });
  const asOf = h("span", { class: "mute" });
  root.replaceChildren(h("div", { class: "page" }, h("div", { class: "two" }, h("section", { class: "card" }, h("h2", {}, "Queues", asOf), list), side)));
  let queues = [];
  let timer = 0;
  let ended = false;
  let selected = chosen || "";
  let read = "";

  const soon = later(load, 1_000);

  async function load() {
    clearTimeout(timer);
    try {
      const found = await get("queues");
      if (ended) return;
      queues = found.queues;
      asOf.textContent = now() - found.at < 3_000 ? "" : `as of ${since(found.at)} ago`;
      show();
      if (selected) await waiting(selected);
    } catch (error) { if (!queues.length) fill(list, h("p", { class: "empty" }, error.message)); }
    if (!ended) timer = setTimeout(load, REFRESH_MS);
  }

  function show() {
    if (!queues.length) {
      fill(list, h("p", { class: "empty" }, h("b", {}, "There is no queue"), "Jobs are submitted to queues: hanse apply makes them."));
      return;
    }
    const focus = document.activeElement?.dataset?.queue;
    if (!selected) selected = [...queues].sort((a, b) => b.pending - a.pending)[0].name;
    fill(list, h("table", { class: "table" }, h("thead", {}, h("tr", {}, h("th", {}, "queue"), h("th", {}, "used of its share"), h("th", { class: "num" }, "live"), h("th", { class: "num" }, "wait"))),
      h("tbody", {}, queues.map((queue) => h("tr", { "data-href": "", "aria-selected": String(queue.name === selected), onclick: () => go(`#/queues/${quoted(queue.name)}`) },
        h("td", {}, h("a", { href: `#/queues/${quoted(queue.name)}`, "data-queue": queue.name, "aria-current": queue.name === selected ? "true" : null }, queue.name), h("div", { class: "mute" }, queue.held ? chip("PLACED", "on hold") : queue.cohort ? `in ${queue.cohort}` : "by itself")),
        h("td", {}, shares(queue)), h("td", { class: "num" }, n(queue.live)), h("td", { class: "num" }, `${n(queue.pending)}${queue.exact ? "" : "+"}`))))));
    if (focus) list.querySelector(`[data-queue="${CSS.escape(focus)}"]`)?.focus();
  }

  async function waiting(name) {
    const found = await get(`queues/${quoted(name)}`);
    if (ended || name !== selected) return;
    const jobs = found.waiting.map((row) => byColumn(found.columns, row)).sort((a, b) => b.priority - a.priority || a.submitted - b.submitted);
    const mark = JSON.stringify([name, found]);
    if (mark === read) return;
    read = mark;
    const counts = SIZES.map(([most, label], i) => [label, jobs.filter((job) => job.gpus <= most && job.gpus > (SIZES[i - 1]?.[0] ?? -1)).length]);
    const top = Math.max(1, ...counts.map(([, count]) => count));
    fill(side, h("h2", {}, `Waits in ${name}`, h("a", { class: "dim", href: `#/jobs?queue=${quoted(name)}` }, "all its jobs")),
      jobs.length ? h("div", { class: "sizes", role: "img", "aria-label": counts.map(([label, count]) => `${label}: ${count}`).join(", ") }, counts.map(([label, count]) =>
        h("div", {}, h("span", { class: "dim" }, label), h("span", { class: "bar" }, h("i", { style: { width: `${(100 * count) / top}%` } })), h("span", { class: "num" }, n(count))))) : null,
      jobs.length ? h("table", { class: "table" }, h("thead", {}, h("tr", {}, h("th", {}, "gang"), h("th", { class: "num" }, "GPUs"), h("th", { class: "num nowrap" }, "waits since"))),
        h("tbody", {}, jobs.slice(0, 60).map((job) => h("tr", {}, h("td", { class: "wide" }, h("a", { href: `#/jobs/${quoted(job.id)}` }, job.name), job.held ? h("span", { class: "mute" }, " on hold") : null, h("div", { class: "mute cut" }, job.message)), h("td", { class: "num" }, n(job.gpus)), h("td", { class: "num nowrap" }, since(job.submitted)))))) :
        h("p", { class: "empty" }, h("b", {}, "Nothing waits"), found.queue.live ? `${plural(found.queue.live, "job")} of it ${found.queue.live === 1 ? "has" : "have"} places.` : "No job of it has a place either."),
      jobs.length > 60 || found.queue.pending > jobs.length ? h("p", { class: "mute" }, `${n(Math.min(60, jobs.length))} of ${n(found.queue.pending)} shown.`) : null);
  }

  const off = listen((what) => { if (what === "events") soon(); });
  load();
  const step = (by) => {
    const index = queues.findIndex((queue) => queue.name === selected) + by;
    if (queues[index]) go(`#/queues/${quoted(queues[index].name)}`);
  };
  return {
    end: () => { ended = true; off(); soon.cancel(); clearTimeout(timer); },
    change: ([name]) => { selected = name || selected; read = ""; show(); waiting(selected).catch(() => {}); },
    keys: { j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1) },
    title: "Queues",
  };
}

function shares(queue) {
  if (!queue.flavors.length) return h("span", { class: "mute" }, "no quota of GPUs");
  return h("div", { class: "share" }, queue.flavors.map(([flavor, nominal, used]) => {
    const most = Math.max(nominal, used, 1);
    const own = Math.min(used, nominal);
    const words = used > nominal ? `${n(used)}, ${n(used - nominal)} borrowed` : `${n(used)} of ${n(nominal)}`;
    return h("div", { title: words }, h("span", { class: "dim" }, flavor), bar([["busy", own], ["over", used - own]], most), h("span", { class: "num nowrap" }, words));
  }));
}
