// The life of a job as a line: what it has passed, how long each stretch took, and what went wrong on the way.

import { svg, h, eventTone } from "./dom.js";
import { clock, now, span, words } from "./fmt.js";

const HIGH = 92;
const Y = 40;
const ATTEMPTS = 2;
const STEPS = [["submitted_ms", "submitted"], ["bound_ms", "bound"], ["placed_ms", "placed"], ["started_ms", "started"], ["running_ms", "running"], ["ended_ms", "ended"]];
const TROUBLE = new Set(["REFUSED", "REQUEUED", "HELD", "STOPPING", "PRIORITY_CHANGED"]);
const TERMINAL = { SUCCEEDED: "succeeded", FAILED: "failed", CANCELLED: "cancelled", LOST: "lost" };

export function lifeLine(job, events, width) {
  const reached = STEPS.filter(([field]) => job[field] > 0).map(([field, word]) => ({ at: job[field], word }));
  if (!reached.length) return h("p", { class: "empty" }, "Nothing is known of it.");
  reached.push(...earlier(job));
  reached.sort((a, b) => a.at - b.at);
  const over = TERMINAL[job.state];
  if (over && reached.at(-1).word === "ended") reached.at(-1).word = over;
  const last = over ? null : { at: now(), word: job.state === "PENDING" ? (job.held ? "on hold" : "waits") : "now", open: true };
  const marks = last ? [...reached, last] : reached;
  const x = spread(marks, width);
  const parts = [];
  for (let i = 1; i < marks.length; i += 1) {
    const open = marks[i].open;
    const tone = marks[i - 1].leads || { submitted: "line-2", bound: "held", placed: "held", started: "held", running: "busy" }[marks[i - 1].word] || "line-2";
    parts.push(svg("line", { x1: x[i - 1], x2: x[i], y1: Y, y2: Y, stroke: `var(--${tone})`, "stroke-width": 4, "stroke-dasharray": open ? "2 6" : null, "stroke-linecap": "round" }));
    const length = span(marks[i].at - marks[i - 1].at);
    if (x[i] - x[i - 1] > length.length * 6.2 + 8) parts.push(svg("text", { class: "t", x: (x[i] + x[i - 1]) / 2, y: Y - 12, "text-anchor": "middle" }, length));
  }
  marks.forEach((mark, i) => {
    const anchor = i === 0 ? "start" : i === marks.length - 1 ? "end" : "middle";
    const at = i === 0 ? 0 : i === marks.length - 1 ? width : x[i];
    const tone = mark.tone ? mark.tone : mark.word === "running" ? "busy" : mark.word === "failed" || mark.word === "lost" ? "broken" : mark.open ? "mute" : "text";
    parts.push(mark.open ? svg("circle", { cx: x[i], cy: Y, r: 5, fill: "var(--bg-2)", stroke: "var(--mute)", "stroke-width": 2 }) : svg("circle", { cx: x[i], cy: Y, r: 5.5, fill: `var(--${tone})`, stroke: "var(--bg-2)", "stroke-width": 2 }));
    parts.push(svg("text", { x: at, y: Y + 24, "text-anchor": anchor }, mark.word), svg("text", { class: "t", x: at, y: Y + 40, "text-anchor": anchor }, mark.open ? "" : clock(mark.at)));
  });
  for (const event of events.filter((one) => TROUBLE.has(one.kind)).slice(-40)) {
    const at = between(event.at, marks, x);
    const colour = { broken: "broken", releasing: "releasing", held: "held" }[eventTone(event)] || "held";
    parts.push(svg("g", { class: "trouble", tabindex: "0", role: "img", "aria-label": `${words(event.kind)}: ${event.message}` }, svg("title", {}, `${clock(event.at)} ${words(event.kind)}: ${event.message}`),
      svg("line", { x1: at, x2: at, y1: Y - 15, y2: Y + 9, stroke: `var(--${colour})`, "stroke-width": 2.5 }), svg("path", { d: `M${at - 4} ${Y - 20}l8 8m0-8l-8 8`, stroke: `var(--${colour})`, "stroke-width": 2, fill: "none" })));
  }
  return svg("svg", { class: "line", viewBox: `0 0 ${width} ${HIGH}`, height: HIGH, role: "img", "aria-label": marks.map((mark) => `${mark.word} ${clock(mark.at)}`).join(", ") }, parts);
}

/** The last attempts before this one: when each had its places, and what ended it. */
function earlier(job) {
  const past = (job.attempts || []).filter((one) => one.bound_ms && one.bound_ms !== job.bound_ms && one.ended_ms);
  return past.slice(-ATTEMPTS).flatMap((one) => [
    { at: one.bound_ms, word: `attempt ${one.attempt}`, leads: "busy" },
    { at: one.ended_ms, word: words(one.reason) || "over", tone: "broken" },
  ]);
}

/** Where each mark stands: longer stretches are longer, but a short one keeps room for its word. */
function spread(marks, width) {
  const inner = width - 16;
  const least = Math.min(92, inner / Math.max(1, marks.length - 1));
  const spans = marks.slice(1).map((mark, i) => Math.log1p(Math.max(0, mark.at - marks[i].at) / 100));
  const all = spans.reduce((sum, one) => sum + one, 0) || 1;
  const rest = Math.max(0, inner - least * spans.length);
  const x = [8];
  for (const one of spans) x.push(x.at(-1) + least + (rest * one) / all);
  return x;
}

function between(at, marks, x) {
  for (let i = 1; i < marks.length; i += 1) {
    if (at <= marks[i].at) {
      const share = (at - marks[i - 1].at) / Math.max(1, marks[i].at - marks[i - 1].at);
      return x[i - 1] + (x[i] - x[i - 1]) * Math.max(0, Math.min(1, share));
    }
  }
  return x.at(-1);
}
