// One pool: its racks, what still fits, what happens in it, and its door.

import { at as quoted, get, order } from "./api.js";
import { blocksOf, blocksOfRacks, cellAt, drawBlocks, sharp } from "./cells.js";
import { ask } from "./ask.js";
import { bar, byColumn, chip, fill, h, tip, toast } from "./dom.js";
import { n, percent, plural, since } from "./fmt.js";
import { later } from "./later.js";
import { cellWords } from "./map.js";
import { listen, store } from "./store.js";
import { onTheme } from "./theme.js";
import { timeline } from "./timeline.js";
import { chipOf } from "./view_fleet.js";

const REFRESH_MS = 1_500;

export function mount(root, [name]) {
  const head = h("div", { class: "title" });
  const figures = h("div", { class: "figures" });
  const canvas = h("canvas", { class: "cells", role: "img" });
  const mapNote = h("p", { class: "mute" });
  const legend = h("div", { class: "legend under" });
  const fits = h("div", {});
  const facts = h("dl", { class: "facts" });
  const events = h("div", {}, h("p", { class: "loading" }, "asking"));
  root.replaceChildren(h("div", { class: "page" }, h("p", { class: "crumb" }, h("a", { href: "#/" }, "Fleet"), " / pools"), head,
    h("div", { class: "detail" },
      h("div", { class: "stack" },
        h("section", { class: "card" }, h("h2", {}, "Racks", mapNote), figures, canvas, legend),
        h("section", { class: "card" }, h("h2", {}, "What happened here"), events)),
      h("div", { class: "stack" },
        h("section", { class: "card" }, h("h2", {}, "The largest gang that still fits"), fits),
        h("section", { class: "card" }, h("h2", {}, "About"), facts)))));

  let pool = null;
  let blocks = [];
  let geometry = null;
  let named = false;
  let ended = false;

  const soon = later(load, REFRESH_MS);

  async function load() {
    let found;
    try { found = await get(`pools/${quoted(name)}`); } catch (error) {
      if (!pool) fill(head, h("div", { class: "empty" }, h("b", {}, error.status === 404 ? "There is no such pool" : "The pool cannot be shown"), error.message));
      return;
    }
    if (ended) return;
    pool = { ...byColumn(found.columns, found.row), ...found };
    if (!named) blocks = found.shape ? blocksOf(found.shape) : [];
    show();
    try {
      const told = await get(`pools/${quoted(name)}/racks`);
      if (ended) return;
      named = true;
      blocks = blocksOfRacks(told.rows.map((row) => byColumn(told.columns, row)));
    } catch {
      named = false; // the agent is silent, or it is not for us: the picture of what is free remains
      blocks = found.shape ? blocksOf(found.shape) : [];
    }
    show();
  }

  function show() {
    fill(head, h("div", { class: "grow" }, h("h1", {}, pool.name),
      h("div", { class: "sub" }, chip(pool.state), pool.region ? h("span", {}, pool.region) : null, h("span", {}, pool.flavors.map(([flavor]) => flavor).join(", ") || "no flavor"),
        pool.reason ? h("span", {}, `“${pool.reason}”`) : null, pool.message ? h("span", { class: "mute" }, pool.message) : null)),
      !store.may.operate ? null : pool.cordoned
        ? h("button", { type: "button", id: "uncordon", onclick: uncordon }, "Uncordon ", h("kbd", {}, "u"))
        : h("button", { type: "button", id: "cordon", onclick: cordon }, "Cordon ", h("kbd", {}, "c")));
    const busy = pool.gpus - pool.free;
    fill(figures, figure(`${percent(busy, pool.gpus)} %`, "busy"), figure(n(pool.free), `of ${n(pool.gpus)} GPUs free`), figure(n(pool.whole), `of ${plural(pool.nodes, "host")} whole`),
      figure(n(pool.gangs), pool.held ? `gangs, ${n(pool.held)} held` : "gangs"), pool.broken ? figure(n(pool.broken), "hosts out of order") : null);
    fill(fits, fitTable());
    fill(facts, pair("summary", pool.age < 0 ? "none has come" : `${since(Date.now() - pool.age)} old${pool.exact ? "" : "; some capacity is left out of it"}`),
      pair("topology", pool.levels.join(" → ") || "no levels"), pair("labels of", pool.dialect || "–"),
      pool.flavors.map(([flavor, gpus, free]) => pair(flavor, h("span", { class: "row" }, h("span", { class: "grow" }, bar([["busy", gpus - free]], gpus)), h("span", { class: "nowrap" }, `${n(free)} of ${n(gpus)} free`)))),
      Object.entries(pool.labels).map(([key, value]) => pair(key, value)));
    draw();
  }

  function fitTable() {
    const rows = pool.fits.filter(([, , , pods]) => pods > 0);
    if (!rows.length) return h("p", { class: "empty" }, "Nothing fits: no GPU is free, or nothing is known yet.");
    return h("table", { class: "table" }, h("thead", {}, h("tr", {}, ["inside one", "pod", "pods", "GPUs"].map((text, i) => h("th", { class: i > 1 ? "num" : "" }, text)))),
      h("tbody", {}, rows.map(([level, flavor, gpus, pods]) => h("tr", {}, h("td", {}, level || "pool"), h("td", {}, `${gpus} × ${flavor}`), h("td", { class: "num" }, n(pods)), h("td", { class: "num" }, n(pods * gpus))))));
  }

  function draw() {
    const width = canvas.parentElement.clientWidth - 38;
    if (!pool || width < 50) return;
    const wide = Math.max(1, ...blocks.map((block) => block.length));
    const high = Math.min(440, Math.max(120, blocks.length * (wide > 40 ? 14 : 34)));
    const context = sharp(canvas, width, high);
    context.clearRect(0, 0, width, high);
    geometry = blocks.length ? drawBlocks(context, blocks, 0, 1, width, high - 2) : null;
    const levels = pool.levels.slice(0, -1);
    fill(legend, named ? ["busy", "free", "parts", "held", "releasing", "broken"].map((tone) => chipOf(tone, tone === "parts" ? "free, in parts of hosts" : tone)) : null);
    mapNote.textContent = named ? `${levels.at(-1) || "host"}s by ${levels.length > 1 ? levels.at(-2) : "pool"}, as its agent sees them` : pool.shape ? `${pool.shape.cell_level || "host"}s in ${pool.shape.level || "pool"}s, fullest last` : "no summary has come yet";
    canvas.setAttribute("aria-label", `${plural(blocks.length, "block")}, ${n(pool.free)} of ${n(pool.gpus)} GPUs free`);
  }

  async function change(what, body) {
    try {
      await order(`pools/${quoted(name)}/${what}`, body);
      toast(what === "cordon" ? `${name} takes no new work.` : `${name} takes work again.`);
    } catch (error) { toast(error.message, true); }
    await load();
  }

  async function cordon() {
    const reason = await ask({ title: `Cordon ${name}?`, text: "It takes no new work. What runs there runs on.", field: "Reason, for who wonders", yes: "Cordon" });
    if (reason !== null) await change("cordon", { reason });
  }

  const uncordon = () => change("uncordon");

  canvas.addEventListener("mousemove", (e) => {
    const box = canvas.getBoundingClientRect();
    const cell = geometry && cellAt(geometry, e.clientX - box.left, e.clientY - box.top);
    if (cell) tip(e.clientX, e.clientY, h("b", {}, cell.cell.name || cellWords(cell)[0]), h("div", { class: "dim" }, cellWords(cell).slice(cell.cell.name ? 0 : 1).join(", ")));
    else tip();
  });
  canvas.addEventListener("mouseleave", () => tip());
  const sized = new ResizeObserver(draw);
  sized.observe(root);
  const offTheme = onTheme(draw);
  const off = listen((what) => {
    if (what !== "pools" || !pool) return;
    const newer = store.pools.get(name);
    if (!newer || newer.version === pool.seen) return;
    pool.seen = newer.version;
    soon();
  });
  load();
  timeline(events, { pool: name }, { subjects: true });
  return {
    end: () => { ended = true; off(); offTheme(); sized.disconnect(); soon.cancel(); tip(); },
    keys: { c: () => store.may.operate && pool && !pool.cordoned && cordon(), u: () => store.may.operate && pool?.cordoned && uncordon() },
    title: name,
  };
}

const figure = (value, label) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, label));
const pair = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
