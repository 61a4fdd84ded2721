// `/`: pools and queues by what is known here, jobs by the beginning of their name.

import { at as quoted, get } from "./api.js";
import { byColumn, chip, fill, h } from "./dom.js";
import { n } from "./fmt.js";
import { store } from "./store.js";

const SHOWN = 6;

export function openSearch(go) {
  if (document.querySelector("dialog.palette")) return;
  const list = h("ul", { role: "listbox", id: "found" });
  const input = h("input", { type: "text", placeholder: "A job, a pool, a queue", "aria-label": "Search", role: "combobox", "aria-controls": "found", "aria-expanded": "true", autocomplete: "off", spellcheck: "false" });
  const box = h("dialog", { class: "palette", "aria-label": "Search" }, input, list);
  let items = [];
  let chosen = 0;
  let turn = 0;
  let queues = [];
  let timer = 0;
  get("queues").then((found) => { queues = found.queues; near(); }).catch(() => {});

  function near() {
    const text = input.value.trim().toLowerCase();
    const pools = [...store.pools.values()].filter((pool) => pool.name.toLowerCase().includes(text)).slice(0, SHOWN)
      .map((pool) => ({ kind: "pool", name: pool.name, more: `${n(pool.free)} free`, href: `#/pools/${quoted(pool.name)}` }));
    const named = queues.filter((queue) => queue.name.toLowerCase().includes(text)).slice(0, SHOWN)
      .map((queue) => ({ kind: "queue", name: queue.name, more: `${n(queue.pending)} wait`, href: `#/queues/${quoted(queue.name)}` }));
    items = [...items.filter((item) => item.kind === "job" && item.name.startsWith(text) && text), ...pools, ...named];
    draw();
  }

  async function far() {
    const text = input.value.trim();
    const mine = (turn += 1);
    if (!text) return;
    try {
      const found = /^[a-z0-9]{8}-[a-z0-9]{16}$/.test(text) ? { columns: ["id", "name", "state", "queue"], rows: [[text, text, "", ""]] } : await get("find", { prefix: text });
      if (mine !== turn) return;
      const jobs = found.rows.map((row) => byColumn(found.columns, row)).map((job) => ({ kind: "job", name: job.name, state: job.state, more: job.queue, href: `#/jobs/${quoted(job.id)}` }));
      items = [...jobs, ...items.filter((item) => item.kind !== "job")];
      draw();
    } catch { /* what begins no name finds no job */ }
  }

  function draw() {
    chosen = Math.max(0, Math.min(chosen, items.length - 1));
    fill(list, items.length ? items.map((item, i) => h("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === chosen), onclick: () => open(item) },
      h("small", {}, item.kind), h("span", { class: "grow cut" }, item.name), item.state ? chip(item.state) : null, h("span", { class: "mute" }, item.more))) : h("li", { class: "mute" }, "Nothing begins like that."));
    input.setAttribute("aria-activedescendant", `found-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  function open(item) {
    box.close();
    go(item.href);
  }

  input.addEventListener("input", () => { chosen = 0; near(); clearTimeout(timer); timer = setTimeout(far, 140); });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); chosen += e.key === "ArrowDown" ? 1 : -1; draw(); }
    else if (e.key === "Enter" && items[chosen]) { e.preventDefault(); open(items[chosen]); }
  });
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (e) => { if (e.target === box) box.close(); });
  document.body.append(box);
  box.showModal();
  input.focus();
  near();
}
