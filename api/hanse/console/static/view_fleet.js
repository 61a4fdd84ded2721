// The fleet: what there is, how busy it is, and what happens.

import { get, at as quoted } from "./api.js";
import { bar, byColumn, chip, eventTone, fill, h, say, speak, tip } from "./dom.js";
import { clock, n, percent, plural, short, since, words } from "./fmt.js";
import { blocksOf, blocksOfRacks } from "./cells.js";
import { FleetMap, cellWords } from "./map.js";
import { listen, store, totals } from "./store.js";
import { onTheme } from "./theme.js";

const SHAPES_AT_ONCE = 24;
const SHAPES_PAUSE_MS = 1_200;
const SORTS = {
  name: (a, b) => (a.name < b.name ? -1 : 1),
  free: (a, b) => b.free - a.free,
  busy: (a, b) => (b.gpus - b.free) / Math.max(1, b.gpus) - (a.gpus - a.free) / Math.max(1, a.gpus),
  worst: (a, b) => Number(a.state === "healthy") - Number(b.state === "healthy") || b.broken - a.broken,
};
let kept = { sort: "name", flavor: "", text: "" };

export function mount(root, _params, go) {
  const figures = {};
  const figure = (name, label) => h("div", { class: "figure" }, (figures[name] = h("b", {}, "–")), (figures[`${name}Label`] = h("span", {}, label)));
  const whole = h("div", {});
  const legend = h("div", { class: "legend" });
  const canvas = h("canvas", { "aria-hidden": "true" });
  const spacer = h("div", { class: "spacer" });
  const wrap = h("div", { class: "mapwrap", tabindex: "0", role: "group", "aria-roledescription": "map", "aria-label": "The fleet, a panel for each pool. Arrow keys choose a pool, Enter opens it." }, canvas, spacer);
  const filter = h("input", { type: "search", placeholder: "Filter pools", "aria-label": "Filter pools", value: kept.text, oninput: (e) => { kept.text = e.target.value; arrange(); } });
  const flavors = h("select", { "aria-label": "Flavor", onchange: (e) => { kept.flavor = e.target.value; arrange(); } });
  const sort = h("select", { "aria-label": "Order", onchange: (e) => { kept.sort = e.target.value; arrange(); } },
    [["name", "by name"], ["free", "most free"], ["busy", "busiest"], ["worst", "worst first"]].map(([value, text]) => h("option", { value, selected: kept.sort === value }, text)));
  const shown = h("span", { class: "mute" });
  const marks = h("div", { class: "legend" });
  const feed = h("ol", { "aria-label": "What happens" });
  const rate = h("span", { class: "mute" });
  const worries = h("div", { class: "worries" });
  const view = h("div", { class: "fleet" },
    h("section", { class: "fleet-main" },
      h("div", { class: "totals" }, figure("busy", "of all GPUs busy"), h("div", { class: "whole" }, whole, legend), figure("gangs", "gangs have places"), figure("waiting", "jobs wait")),
      h("div", { class: "mapbar" }, filter, flavors, sort, shown, marks),
      wrap),
    h("aside", { class: "feed", "aria-label": "Now" }, h("h2", {}, "Happening", rate), feed, worries));
  root.replaceChildren(view);

  const map = new FleetMap(wrap, canvas, spacer);
  let asking = false;
  let timer = 0;
  let told = null;

  /** What the map shows: with the agents' word for each rack, or only what is free. */
  function legendOf(near) {
    fill(marks, (near ? ["busy", "free", "parts", "held", "releasing", "broken"] : ["busy", "free", "parts"]).map((tone) => chipOf(tone, tone === "parts" ? "in parts" : tone)));
  }

  function arrange() {
    const wanted = kept.text.toLowerCase();
    const pools = [...store.pools.values()].filter((pool) =>
      (!wanted || pool.name.toLowerCase().includes(wanted) || pool.region.toLowerCase().includes(wanted)) &&
      (!kept.flavor || pool.flavors.some(([name]) => name === kept.flavor))).sort(SORTS[kept.sort]);
    map.setPools(pools);
    say(shown, pools.length === store.pools.size ? plural(pools.length, "pool") : `${n(pools.length)} of ${plural(store.pools.size, "pool")}`);
    wrap.dataset.pools = String(pools.length);
    fetchShapes();
  }

  async function fetchShapes() {
    clearTimeout(timer);
    if (asking || !wrap.isConnected) return;
    const wanted = map.visible().filter((pool) => map.shapes.get(pool.name)?.version !== pool.version).slice(0, SHAPES_AT_ONCE);
    if (!wanted.length) return;
    asking = true;
    try {
      const found = await get("shapes", { pools: wanted.map((pool) => pool.name).join(","), racks: map.close ? "1" : "" });
      for (const pool of wanted) {
        const [racks, shape] = [found.racks[pool.name], found.shapes[pool.name]];
        map.take(pool.name, pool.version, racks ? blocksOfRacks(racks.rows.map((row) => byColumn(racks.columns, row))) : shape ? blocksOf(shape) : []);
      }
      const near = Object.keys(found.racks).length > 0;
      if (near !== told) { told = near; legendOf(near); }
      wrap.dataset.drawn = String(map.shapes.size);
    } catch { /* the connection says so; asked again with the next change */ }
    asking = false;
    timer = setTimeout(fetchShapes, SHAPES_PAUSE_MS);
  }

  function pools() {
    const all = totals();
    const busy = all.gpus - all.free;
    fill(figures.busy, percent(busy, all.gpus), h("small", {}, "%"));
    say(figures.gangs, short(all.gangs));
    fill(whole, bar([["busy", busy]], all.gpus));
    fill(legend,
      chipOf("busy", `${n(busy)} busy`), chipOf("free", `${n(all.free)} free, ${n(all.whole)} whole hosts`),
      all.held ? chipOf("held", `${plural(all.held, "gang")} held`) : null,
      all.stopping ? chipOf("releasing", `${plural(all.stopping, "gang")} ending`) : null,
      all.broken ? chipOf("broken", `${plural(all.broken, "host")} out`) : null);
    const names = [...new Set([...store.pools.values()].flatMap((pool) => pool.flavors.map(([name]) => name)))].sort();
    if (flavors.dataset.names !== names.join()) {
      flavors.dataset.names = names.join();
      fill(flavors, h("option", { value: "" }, "all flavors"), names.map((name) => h("option", { value: name, selected: kept.flavor === name }, name)));
    }
    arrange();
    if (store.ready && !store.pools.size) fill(shown, "no pool has joined yet: run an agent beside a cluster");
  }

  function status() {
    const status = store.status;
    if (!status) return;
    const waiting = status.replicas.reduce((sum, one) => sum + one.pending_jobs, 0);
    say(figures.waiting, short(waiting));
    const bound = status.replicas.reduce((sum, one) => sum + one.bound_per_s, 0);
    say(rate, bound >= 0.05 ? `${bound.toFixed(1)} bound/s` : "");
    fill(worries, status.degraded.length
      ? [...status.degraded.slice(0, 6).map((text) => h("div", {}, h("span", { class: "dot", "data-tone": "broken" }), h("span", {}, text))),
        status.degraded.length > 6 ? h("a", { href: "#/now", class: "dim" }, `and ${n(status.degraded.length - 6 + status.degraded_left_out)} more`) : null]
      : h("div", { class: "dim" }, h("span", { class: "dot", "data-tone": "busy" }), h("span", {}, `Nothing is degraded. ${plural(status.agents, "agent")} attached.`)));
  }

  function events() {
    if (!store.events.length) { fill(feed, h("p", { class: "empty" }, "Nothing has happened yet.")); return; }
    fill(feed, store.events.slice(0, 60).map(eventLine));
  }

  wrap.addEventListener("scroll", () => { map.draw(); clearTimeout(timer); timer = setTimeout(fetchShapes, 120); }, { passive: true });
  wrap.addEventListener("mousemove", (e) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    const index = map.at(x, y);
    if (index !== map.hover) { map.hover = index; map.draw(); }
    wrap.style.cursor = index >= 0 ? "pointer" : "";
    if (index < 0) { tip(); return; }
    const cell = map.cell(index, x, y);
    tip(e.clientX, e.clientY, poolTip(map.pools[index]), cell ? h("div", { class: "dim" }, `${cell.cell.name || "this rack"}: ${cellWords(cell).join(", ")}`) : null);
  });
  wrap.addEventListener("mouseleave", () => { map.hover = -1; map.draw(); tip(); });
  wrap.addEventListener("click", (e) => {
    const box = canvas.getBoundingClientRect();
    const index = map.at(e.clientX - box.left, e.clientY - box.top);
    if (index >= 0) { tip(); go(`#/pools/${quoted(map.pools[index].name)}`); }
  });
  wrap.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: map.columns, ArrowUp: -map.columns }[e.key];
    if (step) {
      e.preventDefault();
      const pool = map.select(map.selected < 0 ? 0 : map.selected + step);
      if (pool) speak(`${pool.name}: ${n(pool.free)} of ${n(pool.gpus)} GPUs free, ${pool.state}`);
    } else if (e.key === "Enter" && map.selected >= 0) go(`#/pools/${quoted(map.pools[map.selected].name)}`);
  });
  feed.addEventListener("mouseover", (e) => {
    const pool = e.target.closest("li")?.dataset.pool;
    map.lit = new Set(pool ? pool.split(" and ") : []);
    map.draw();
  });
  feed.addEventListener("mouseleave", () => { map.lit = new Set(); map.draw(); });
  const sized = new ResizeObserver(() => { map.layout(); fetchShapes(); });
  sized.observe(wrap);
  const offTheme = onTheme(() => map.draw());
  const off = listen((what) => ({ pools, status, events, connection: () => {} })[what]?.());
  legendOf(false);
  if (store.ready) pools();
  status();
  events();
  wrap.focus({ preventScroll: true });
  return { map, end: () => { off(); offTheme(); sized.disconnect(); clearTimeout(timer); tip(); }, filter: () => filter.focus() };
}

const chipOf = (tone, text) => h("span", { class: "chip", "data-tone": tone }, text);

function poolTip(pool) {
  return [h("b", {}, pool.name), h("div", { class: "dim" }, `${pool.region ? `${pool.region} · ` : ""}${n(pool.free)} of ${n(pool.gpus)} GPUs free · ${plural(pool.gangs, "gang")}`),
    pool.state === "healthy" ? null : h("div", {}, chip(pool.state), pool.reason ? ` ${pool.reason}` : pool.message ? ` ${pool.message}` : "")];
}

export function eventLine(event) {
  const subject = event.job ? h("a", { href: `#/jobs/${quoted(event.job)}` }, event.name || event.job) : h("a", { href: `#/pools/${quoted(event.pool)}` }, event.pool);
  return h("li", { "data-tone": eventTone(event), "data-pool": event.pool, "data-kind": event.kind },
    h("span", { class: "dot", "data-tone": eventTone(event) }),
    h("span", { class: "what" }, subject, ` ${words(event.kind)}`),
    h("time", { title: since(event.at) }, clock(event.at)),
    event.message || event.reason ? h("span", { class: "why" }, event.message || words(event.reason)) : null);
}
export { chipOf };
