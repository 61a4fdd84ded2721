// Now: how the schedulers are, what collides, what is refused, and how old what they know is.

import { fill, h, svg } from "./dom.js";
import { n, percent, plural, span, words } from "./fmt.js";
import { listen, store } from "./store.js";

const W = 240;
const H = 54;

export function mount(root) {
  const gauges = h("div", { class: "gauges" });
  const degraded = h("div", {});
  const replicas = h("div", {});
  const reasons = h("div", {});
  root.replaceChildren(h("div", { class: "page" }, gauges,
    h("div", { class: "two" }, h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, "What is degraded"), degraded), h("section", { class: "card" }, h("h2", {}, "Replicas"), replicas)),
      h("section", { class: "card" }, h("h2", {}, "Conflicts and refusals", h("span", { class: "mute" }, "since each replica started")), reasons))));

  function show() {
    const status = store.status;
    if (!status) { fill(gauges, h("p", { class: "loading" }, "asking the replicas")); return; }
    const last = store.history.at(-1) || [0, 0, 0, 0, 0];
    fill(gauges,
      gauge(last[1].toFixed(last[1] < 10 ? 1 : 0), "jobs bound a second", 1),
      gauge(`${percent(last[2], 1)} %`, "of transactions overtaken by others", 2, 1),
      gauge(`${percent(last[3], 1)} %`, "of bindings refused by agents", 3, 1),
      gauge(n(last[4]), "jobs wait", 4));
    fill(degraded, status.degraded.length ? h("ul", { class: "helps" }, status.degraded.map((text) => h("li", {}, h("span", { class: "dot", "data-tone": "broken" }), h("span", {}, text))),
      status.degraded_left_out ? h("li", {}, "", h("span", { class: "mute" }, `and ${n(status.degraded_left_out)} more: hanse status`)) : null) :
      h("p", { class: "dim" }, "Nothing. ", plural(status.agents, "agent"), ` of ${plural(status.pools, "pool")} attached; `, status.ages.length ? `summaries are ${span(status.ages[0])} old, the oldest ${span(status.ages[1])}.` : "no summary has come yet."));
    fill(replicas, h("table", { class: "table" }, h("thead", {}, h("tr", {}, ["replica", "up", "agents", "roots", "wait", "bound/s", "overtaken", "refused"].map((text, i) => h("th", { class: i ? "num" : "" }, text)))),
      h("tbody", {}, status.replicas.map((one) => h("tr", {}, h("td", {}, h("span", { class: "chip", "data-tone": one.answers && one.ready ? "busy" : "broken" }, one.id), one.answers ? null : h("div", { class: "mute" }, "does not answer")),
        [span(one.uptime_ms), n(one.agents), n(one.roots), n(one.pending_jobs), one.bound_per_s.toFixed(1), `${percent(one.conflict_fraction, 1)} %`, `${percent(one.refusal_fraction, 1)} %`].map((text) => h("td", { class: "num nowrap" }, text)))))));
    const rows = [["overtaken in", "conflicts", "waiting"], ["refused for", "refusals", "broken"]].flatMap(([label, field, tone]) => {
      const sums = {};
      for (const one of status.replicas) for (const [kind, count] of Object.entries(one[field])) sums[kind] = (sums[kind] || 0) + count;
      return Object.entries(sums).filter(([, count]) => count).map(([kind, count]) => ({ label: `${label} ${words(kind)}`, count, tone }));
    }).sort((a, b) => b.count - a.count).slice(0, 14);
    const top = Math.max(1, ...rows.map((row) => row.count));
    fill(reasons, rows.length ? h("div", { class: "sizes" }, rows.map((row) => h("div", { class: "wide" }, h("span", { class: "dim" }, row.label), h("span", { class: "bar" }, h("i", { style: { width: `${(100 * row.count) / top}%` } })), h("span", { class: "num" }, n(row.count))))) :
      h("p", { class: "empty" }, h("b", {}, "None"), "No transaction was overtaken and no agent refused a job."));
  }

  const off = listen((what) => what === "status" && show());
  show();
  return { end: off, title: "Now" };
}

function gauge(value, label, column, most = 0) {
  const points = store.history.map((row) => row[column]);
  const top = most || Math.max(1, ...points);
  const step = W / Math.max(30, points.length - 1);
  const xy = points.map((point, i) => `${(W - (points.length - 1 - i) * step).toFixed(1)},${(H - 2 - (point / top) * (H - 6)).toFixed(1)}`);
  const line = xy.length > 1 ? xy.join(" ") : `0,${H - 2} ${W},${H - 2}`;
  return h("section", { class: "card figure" }, h("b", {}, value), h("span", {}, label),
    svg("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("polygon", { class: "spark-fill", points: `${xy[0]?.split(",")[0] ?? 0},${H} ${line} ${W},${H}` }), svg("polyline", { class: "spark", points: line })));
}
