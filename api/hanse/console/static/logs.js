// The log of one pod, followed; the newest lines only.

import { at as quoted } from "./api.js";
import { fill, h } from "./dom.js";
import { clock } from "./fmt.js";

const LINES_MAX = 2_000;
const HAS_PODS = new Set(["STARTING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "CANCELLED", "LOST"]);

export class LogPanel {
  constructor() {
    this.output = h("pre", { class: "logs", tabindex: "0", "aria-label": "Log" });
    this.set = h("select", { "aria-label": "Pod set", onchange: () => this.open() });
    this.rank = h("input", { type: "number", min: "0", value: "0", "aria-label": "Rank", style: { width: "86px" }, onchange: () => this.open() });
    this.said = h("span", { class: "mute" });
    this.element = h("section", { class: "card" }, h("h2", {}, h("span", {}, "Log "), h("span", { class: "row" }, this.said, this.set, h("label", { class: "row" }, "rank ", this.rank))), this.output);
    this.source = null;
    this.key = "";
  }

  show(job) {
    this.job = job;
    const sets = job.spec.pod_sets;
    fill(this.set, sets.map((set) => h("option", { value: set.name }, set.name || "pods")));
    this.set.hidden = sets.length < 2;
    this.rank.max = String(Math.max(0, ...sets.map((set) => set.count - 1)));
    const key = `${job.id}/${job.attempt}`;
    if (!HAS_PODS.has(job.state)) { this.end(); this.key = ""; fill(this.output, h("span", { class: "mute" }, "It writes once its pods run.")); return; }
    if (this.key !== key) { this.key = key; this.open(); }
  }

  open() {
    this.end();
    this.output.replaceChildren();
    const query = new URLSearchParams({ set: this.set.value || "", rank: this.rank.value || "0", follow: "1" });
    this.source = new EventSource(`/api/jobs/${quoted(this.job.id)}/logs?${query}`);
    this.said.textContent = "";
    this.source.addEventListener("lines", (event) => this.add(JSON.parse(event.data)));
    this.source.addEventListener("end", () => this.over("the end"));
    this.source.addEventListener("refused", (event) => this.over(JSON.parse(event.data).error.message));
    this.source.onerror = () => this.over("the connection was lost");
  }

  add(lines) {
    const below = this.output.scrollTop + this.output.clientHeight > this.output.scrollHeight - 30;
    this.output.append(...lines.map(([at, text]) => h("div", {}, at ? h("time", {}, clock(at)) : null, text)));
    while (this.output.childElementCount > LINES_MAX) this.output.firstChild.remove();
    if (below) this.output.scrollTop = this.output.scrollHeight;
  }

  over(text) {
    this.source?.close();
    this.source = null;
    this.said.textContent = text;
  }

  focus() { this.output.focus(); this.output.scrollIntoView({ block: "center" }); }

  end() { this.source?.close(); this.source = null; }
}
