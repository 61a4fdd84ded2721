// Jobs, a page at a time; only the rows in sight are elements. States change as events come; what would change the list
// itself is offered, not forced upon who reads it.

import { at as quoted, get, order } from "./api.js";
import { ask } from "./ask.js";
import { byColumn, chip, fill, h, say, toast } from "./dom.js";
import { n, plural, since, words } from "./fmt.js";
import { listen, store } from "./store.js";

const ROW = 46;
const PAGE = 100;
const KEPT = 5_000;
const GROUPS = [["all", ""], ["waiting", "PENDING"], ["placed", "BOUND,PLACED,STARTING"], ["running", "RUNNING,STOPPING"], ["ended", "SUCCEEDED,FAILED,CANCELLED,LOST"]];
const NEXT = { BOUND: "BOUND", PLACED: "PLACED", STARTING: "STARTING", RUNNING: "RUNNING", STOPPING: "STOPPING", REQUEUED: "PENDING", REFUSED: "PENDING" };

export function mount(root, _params, go, query) {
  const asked = { states: query.get("states") || "", queue: query.get("queue") || "", prefix: query.get("prefix") || "" };
  let rows = [];
  let next = "";
  let selected = 0;
  let loading = false;
  let turn = 0;
  let news = 0;

  const search = h("input", { type: "search", placeholder: "Name begins with", "aria-label": "Name begins with", value: asked.prefix });
  const queues = h("select", { "aria-label": "Queue" }, h("option", { value: "" }, "all queues"));
  const groups = GROUPS.map(([label, states]) => h("button", { type: "button", class: "toggle", "aria-pressed": String(asked.states === states), onclick: () => { asked.states = states; again(); } }, label));
  const fresh = h("button", { type: "button", hidden: true, onclick: () => again() });
  const count = h("span", {});
  const body = h("div", {});
  const list = h("div", { class: "vlist", tabindex: "0", role: "listbox", "aria-label": "Jobs. j and k move, Enter opens, x cancels." }, body);
  root.replaceChildren(h("div", { class: "jobs" },
    h("div", { class: "filters" }, search, queues, groups, fresh),
    h("div", { class: "head", "aria-hidden": "true" }, ["job", "queue", "state", "size", "where or why not", "since"].map((text) => h("span", { class: text === "since" ? "right" : "" }, text))),
    list, h("div", { class: "foot" }, count)));
  body.style.position = "relative";

  let typing = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => { asked.prefix = search.value.trim(); again(); }, 250); });
  queues.addEventListener("change", () => { asked.queue = queues.value; again(); });
  get("queues").then((found) => fill(queues, h("option", { value: "" }, "all queues"), found.queues.map((queue) => h("option", { value: queue.name, selected: queue.name === asked.queue }, queue.name)))).catch(() => {});

  function again() {
    GROUPS.forEach(([, states], i) => groups[i].setAttribute("aria-pressed", String(states === asked.states)));
    const shown = new URLSearchParams(Object.entries(asked).filter(([, value]) => value)).toString();
    history.replaceState(null, "", `#/jobs${shown ? `?${shown}` : ""}`);
    turn += 1;
    loading = false;
    rows = [];
    next = "";
    news = 0;
    fresh.hidden = true;
    selected = 0;
    list.scrollTop = 0;
    load();
  }

  async function load() {
    if (loading) return;
    loading = true;
    const mine = turn;
    draw();
    try {
      // A page of a filtered list may come back short; go on until there is something to show.
      for (let tries = 0; tries < 20; tries += 1) {
        const found = await get("jobs", { ...asked, size: PAGE, page: next });
        if (mine !== turn || !list.isConnected) return;
        rows.push(...found.rows.map((row) => byColumn(found.columns, row)));
        next = rows.length < KEPT ? found.next : "";
        if (!next || found.rows.length) break;
      }
    } catch (error) {
      if (mine === turn) { fill(body, h("p", { class: "empty" }, error.message)); loading = false; next = ""; }
      return;
    }
    loading = false;
    draw();
  }

  function draw() {
    body.style.height = `${Math.max(rows.length * ROW, 120)}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(rows.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
    if (!rows.length) fill(body, loading ? h("p", { class: "loading" }, "reading") : h("p", { class: "empty" }, h("b", {}, "No job is like that"), asked.prefix || asked.queue || asked.states ? "Take a filter away." : "Submit one: hanse submit FILE"));
    else fill(body, rows.slice(first, last).map((job, i) => line(job, first + i)));
    say(count, rows.length ? `${plural(rows.length, "job")}${next ? ", more as you scroll" : rows.length >= KEPT ? "; narrow the filter to see others" : ""}` : "");
    list.setAttribute("aria-activedescendant", rows[selected] ? `job-${rows[selected].id}` : "");
    if (next && !loading && last > rows.length - 20) load();
  }

  function line(job, index) {
    return h("div", { class: "vrow", role: "option", id: `job-${job.id}`, "aria-selected": String(index === selected), style: { top: `${index * ROW}px`, height: `${ROW}px` }, onclick: () => go(`#/jobs/${quoted(job.id)}`) },
      h("a", { class: "cut", href: `#/jobs/${quoted(job.id)}`, tabindex: "-1" }, job.name || job.id), h("span", { class: "cut dim" }, job.queue), chip(job.state, job.held ? "on hold" : undefined),
      h("span", { class: "dim nowrap" }, job.pods ? `${n(job.pods)} ${job.pods === 1 ? "pod" : "pods"}${job.gpus ? ` · ${n(job.gpus)}` : ""}` : ""),
      h("span", { class: "cut dim", title: job.message }, job.pools.join(" + ") || job.message || words(job.reason)), h("span", { class: "num mute nowrap" }, since(job.changed)));
  }

  function move(by) {
    if (!rows.length) return;
    selected = Math.max(0, Math.min(rows.length - 1, selected + by));
    const top = selected * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
  }

  async function cancel() {
    const job = rows[selected];
    if (!job || !store.may.change) return;
    if (await ask({ title: `Cancel ${job.name}?`, text: `Its ${plural(job.pods, "pod")} end, and it does not start again.`, yes: "Cancel it", danger: true }) === null) return;
    try {
      await order(`jobs/${quoted(job.id)}/cancel`);
      toast(`${job.name} is cancelled.`);
    } catch (error) { toast(error.message, true); }
    list.focus();
  }

  const off = listen((what) => {
    if (what !== "events") return;
    let drawn = false;
    for (const event of [...store.news].reverse()) {
      const job = event.job && rows.find((row) => row.id === event.job);
      if (!job) { if (event.kind === "SUBMITTED") news += 1; continue; }
      const ended = event.kind === "ENDED" ? event.message.split(":")[0] : "";
      const state = ended || NEXT[event.kind];
      if (state) { job.state = state; job.changed = event.at; drawn = true; }
      if (event.pool && state && state !== "PENDING") job.pools = event.pool.split(" and ");
      if (event.kind === "HELD" || event.kind === "RELEASED") { job.held = event.kind === "HELD"; drawn = true; }
    }
    if (store.skipped) news += store.skipped;
    fresh.hidden = !news;
    fresh.textContent = store.skipped ? "much has changed: read again" : `${n(news)} new: read again`;
    if (!rows.length && news && !loading) again();
    else if (drawn) draw();
  });
  list.addEventListener("scroll", draw, { passive: true });
  const sized = new ResizeObserver(draw);
  sized.observe(list);
  const ticking = setInterval(() => { if (!document.hidden) draw(); }, 5_000);
  load();
  list.focus({ preventScroll: true });
  return {
    end: () => { off(); sized.disconnect(); clearInterval(ticking); clearTimeout(typing); },
    keys: { j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(12), PageUp: () => move(-12), x: cancel,
      Enter: () => rows[selected] && go(`#/jobs/${quoted(rows[selected].id)}`) },
    filter: () => search.focus(),
    title: "Jobs",
  };
}
