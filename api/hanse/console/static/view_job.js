// A job's page: its life, where it is, why, and what it says.

import { at as quoted, get, order } from "./api.js";
import { ask } from "./ask.js";
import { blocksOfRacks } from "./cells.js";
import { byColumn, chip, fill, h, toast, tip } from "./dom.js";
import { moment, n, plural, since, words } from "./fmt.js";
import { lifeLine } from "./lifeline.js";
import { LogPanel } from "./logs.js";
import { drawOver, placement } from "./placement.js";
import { listen, store } from "./store.js";
import { onTheme } from "./theme.js";
import { timeline } from "./timeline.js";

const TERMINAL = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "LOST"]);
const PLACED = new Set(["PLACED", "STARTING", "RUNNING", "STOPPING"]);
const WAITING_MS = 5_000;

export function mount(root, [id]) {
  const head = h("div", { class: "title" });
  const life = h("div", {}, h("p", { class: "loading" }, "reading"));
  const why = h("div", {}, h("p", { class: "loading" }, "asking"));
  const where = h("div", {}, h("p", { class: "loading" }, "asking"));
  const whereNote = h("span", { class: "mute" });
  const events = h("div", {});
  const about = h("dl", { class: "facts" });
  const logs = new LogPanel();
  const whyTitle = h("span", {}, "Why");
  root.replaceChildren(h("div", { class: "page" }, h("p", { class: "crumb" }, h("a", { href: "#/jobs" }, "Jobs")), head,
    h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, "Life"), life),
      h("div", { class: "detail" },
        h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, "Places", whereNote), where), logs.element),
        h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, whyTitle), why), h("section", { class: "card" }, h("h2", {}, "What happened"), events), h("section", { class: "card" }, h("h2", {}, "About"), about))))));

  let job = null;
  let marks = [];
  let places = null;
  const pools = new Map(); // racks of the pools that it is in
  let ended = false;
  let timer = 0;
  let state = "";

  async function load() {
    clearTimeout(timer);
    let found;
    try { found = await get(`jobs/${quoted(id)}`); } catch (error) {
      if (!job && !ended) fill(root, h("div", { class: "page" }, h("div", { class: "empty" }, h("b", {}, error.status === 404 ? "There is no such job" : "The job cannot be shown"), error.message)));
      return;
    }
    if (ended) return;
    job = found;
    show();
    const now = `${job.state}/${job.attempt}/${job.held}`;
    if (now !== state) {
      state = now;
      timeline(events, { job: job.id }, { whenRead: (all) => { marks = all; drawLife(); } });
      explain();
      findPlaces();
      logs.show(job);
    } else if (job.state === "PENDING") explain();
    if (!TERMINAL.has(job.state)) timer = setTimeout(load, job.state === "PENDING" ? WAITING_MS : 2 * WAITING_MS);
  }

  function show() {
    const pods = job.spec.pod_sets.reduce((sum, set) => sum + set.count, 0);
    fill(head, h("div", { class: "grow" }, h("h1", {}, job.name || job.id),
      h("div", { class: "sub" }, chip(job.state, job.held ? "on hold" : undefined), h("a", { href: `#/queues/${quoted(job.queue)}` }, job.queue), h("span", {}, plural(pods, "pod")),
        job.attempt > 1 ? h("span", {}, `attempt ${n(job.attempt)}`) : null, job.message ? h("span", { class: "mute" }, job.message) : null)),
      store.may.change && TERMINAL.has(job.state) ? h("button", { type: "button", id: "retry", onclick: () => change("retry", `A new job tries ${job.name} again.`) }, "Try again") : null,
      store.may.change && job.state === "PENDING" ? h("button", { type: "button", id: "hold", onclick: () => change(job.held ? "release" : "hold", job.held ? "It waits again." : "It is on hold.") }, job.held ? "Release" : "Hold") : null,
      !store.may.change || TERMINAL.has(job.state) || job.state === "STOPPING" ? null : h("button", { type: "button", id: "cancel", class: "danger", onclick: cancel }, "Cancel ", h("kbd", {}, "x")));
    const set = job.spec.pod_sets[0];
    fill(about, pair("id", h("code", {}, job.id)), pair("submitted", `${moment(job.submitted_ms)}, ${since(job.submitted_ms)} ago`), pair("priority", `${job.priority}${job.priority_class ? ` (${job.priority_class})` : ""}`),
      job.spec.pod_sets.map((one) => pair(one.name || "pods", `${n(one.count)} × ${resources(one.resources)}${one.flavors.length ? `, ${one.flavors.join(" or ")}` : ""}${levels(one)}`)),
      set?.template?.image ? pair("image", h("code", {}, set.template.image)) : null, set?.template?.command?.length ? pair("command", h("code", {}, [...set.template.command, ...set.template.args].join(" "))) : null,
      job.spec.manifest?.kind ? pair("written as", job.spec.manifest.kind) : null, Object.entries(job.spec.labels).map(([key, value]) => pair(key, value)),
      job.retry_of ? pair("tries again", h("a", { href: `#/jobs/${quoted(job.retry_of)}` }, job.retry_of)) : null);
    drawLife();
  }

  function drawLife() {
    if (job) fill(life, lifeLine(job, marks, life.clientWidth || 900));
  }

  async function explain() {
    try {
      const found = await get(`jobs/${quoted(job.id)}/explain`);
      if (ended) return;
      const waits = job.state === "PENDING";
      fill(whyTitle, waits ? "Why it waits, and what would help" : "Why there");
      fill(why, h("p", { class: "answer" }, found.answer), found.position && waits ? h("p", { class: "dim" }, `number ${n(found.position)} in its queue, since ${since(found.since)}`) : null,
        found.helps.length ? h("ul", { class: "helps", "aria-label": "What would help" }, found.helps.map(([change, effect]) => h("li", {}, h("span", { class: "mute" }, "→"), h("span", {}, change, effect ? h("span", { class: "dim" }, ` → ${effect}`) : null)))) : null,
        h("div", { class: "pools" }, found.pools.slice(0, 12).map((pool) => h("div", { "data-pool": pool.pool }, h("span", { class: pool.fits ? "" : "mute" }, pool.chosen ? "●" : pool.fits ? "✓" : "✕"), h("a", { href: `#/pools/${quoted(pool.pool)}` }, pool.pool),
          h("span", { class: "mute" }, pool.chosen ? "chosen" : pool.fits ? "fits" : words(pool.reason)), h("span", { class: "dim" }, pool.detail), lines(pool).length ? h("div", { class: "lines" }, lines(pool).slice(0, 6).map((text) => h("span", {}, text))) : null))),
        found.pools.length > 12 || found.left_out ? h("p", { class: "mute" }, `${n(found.pools.length - 12 + found.left_out)} more pools: hanse explain ${job.name}`) : null);
      if (waits) showNearest(found.pools[0]);
    } catch (error) { fill(why, h("p", { class: "empty" }, error.message)); }
  }

  /** Of a gang that waits: the racks of the pool that comes nearest, those lit of which every host is whole. */
  async function showNearest(pool) {
    if (!pool || pool.reason !== "SHAPE") return;
    const told = await get(`pools/${quoted(pool.pool)}/racks`).catch(() => null); // not for everybody
    if (!told || ended || job.state !== "PENDING") return;
    const blocks = blocksOfRacks(told.rows.map((row) => byColumn(told.columns, row)));
    if (!blocks.length) return;
    const canvas = h("canvas", { class: "cells", role: "img", "aria-label": `Racks of ${pool.pool}` });
    fill(where, h("p", { class: "dim near" }, "It has no places yet. Nearest is ", h("a", { href: `#/pools/${quoted(pool.pool)}` }, pool.pool), ": racks that are wholly free are lit."), canvas);
    drawOver(canvas, blocks, blocks.flat().filter((rack) => rack.hosts && rack.whole === rack.hosts).map((rack) => ({ ...rack, free: true })), where.clientWidth);
  }

  async function findPlaces() {
    if (!PLACED.has(job.state)) {
      places = null;
      whereNote.textContent = "";
      fill(where, h("p", { class: "empty" }, h("b", {}, TERMINAL.has(job.state) ? "It has no places any more" : "It has no places yet"), job.placement.length ? `Its last attempt was in ${job.placement.map((part) => part.pool).join(" and ")}.` : job.state === "PENDING" ? "A gang gets all of its places in one step, or none." : "Its agent chooses the hosts now."));
      return;
    }
    try {
      places = await get(`jobs/${quoted(job.id)}/nodes`);
      if (ended) return;
      drawPlaces();
      for (const pool of new Set(job.placement.map((part) => part.pool))) {
        const told = await get(`pools/${quoted(pool)}/racks`).catch(() => null); // not for everybody: then only its own racks
        if (ended) return;
        if (told) pools.set(pool, blocksOfRacks(told.rows.map((row) => byColumn(told.columns, row))));
      }
      drawPlaces();
    } catch (error) { fill(where, h("p", { class: "empty" }, error.message)); }
  }

  function drawPlaces() {
    if (!places) return;
    whereNote.textContent = job.placement.map((part) => `${part.pool}: ${part.domains.map((use) => plural(use.count, use.level)).join(", ")}`).join(" · ");
    placement(where, places, pools);
  }

  async function change(what, told) {
    try {
      const done = await order(`jobs/${quoted(job.id)}/${what}`);
      toast(told);
      if (what === "retry") { location.hash = `#/jobs/${quoted(done.job[0])}`; return; }
    } catch (error) { toast(error.message, true); }
    load();
  }

  async function cancel() {
    if (!job || !store.may.change || TERMINAL.has(job.state)) return;
    const running = PLACED.has(job.state);
    if (await ask({ title: `Cancel ${job.name}?`, text: running ? "Its pods end, and it does not start again." : "It leaves its queue.", yes: "Cancel it", danger: true }) !== null) await change("cancel", `${job.name} is cancelled.`);
  }

  const off = listen((what) => {
    if (what === "events" && job && store.news.some((event) => event.job === job.id)) { clearTimeout(timer); timer = setTimeout(load, 250); }
    if (what === "connection" && store.state === "live") load();
  });
  const offTheme = onTheme(() => { drawLife(); drawPlaces(); });
  const sized = new ResizeObserver(() => { drawLife(); drawPlaces(); });
  sized.observe(root);
  load();
  return { end: () => { ended = true; off(); offTheme(); sized.disconnect(); clearTimeout(timer); logs.end(); tip(); }, keys: { x: cancel, l: () => logs.focus() }, title: id };
}

const lines = (pool) => pool.nodes.filter((text) => text !== pool.detail);
const pair = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

function resources(amounts) {
  return Object.entries(amounts).filter(([, value]) => value).map(([name, value]) => {
    const plain = name.split("/").pop();
    if (name === "cpu") return `${n(value / 1_000)} CPU`;
    if (name === "memory") return `${n(value / 2 ** 30)} GiB`;
    return `${n(value)} ${plain}`;
  }).join(", ");
}

function levels(set) {
  const topology = set.topology;
  if (!topology) return "";
  const found = [];
  if (topology.required_level) found.push(`in one ${topology.required_level}`);
  if (topology.preferred_level) found.push(`rather in one ${topology.preferred_level}`);
  for (const slice of topology.slices || []) found.push(`${n(slice.size)} in each ${slice.level}`);
  return found.length ? `, ${found.join(", ")}` : "";
}
