// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en-US");

export const n = (value) => whole.format(Math.round(value || 0));

/** 1,234 · 12.3k · 4.5M: for places where a long number does not fit. */
export function short(value) {
  if (value < 10_000) return n(value);
  if (value < 1_000_000) return `${(value / 1_000).toFixed(value < 100_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export const plural = (count, word) => `${n(count)} ${word}${count === 1 ? "" : "s"}`;

export function percent(part, all) {
  if (!all) return "0";
  const value = (100 * part) / all;
  if (value > 0 && value < 0.1) return "<0.1";
  return value > 99.9 && value < 100 ? "99.9" : value.toFixed(value < 10 || value > 99 ? 1 : 0).replace(/\.0$/, "");
}

/** A length of time, in two units at most. */
export function span(ms) {
  if (ms < 0) ms = 0;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const s = ms / 1_000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min${m < 10 && Math.floor(s % 60) ? ` ${Math.floor(s % 60)} s` : ""}`;
  const h = Math.floor(m / 60);
  if (h < 48) return `${h} h${m % 60 && h < 10 ? ` ${m % 60} min` : ""}`;
  return `${Math.floor(h / 24)} d`;
}

let skewMs = 0;

/** The server's clock is the one that counts; ours is compared with it now and then. */
export const setServerTime = (ms) => { skewMs = ms - Date.now(); };
export const now = () => Date.now() + skewMs;
export const since = (ms) => span(now() - ms);

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
export function moment(ms) {
  const date = new Date(ms);
  const today = new Date(now()).toDateString() === date.toDateString();
  return today ? clock(ms) : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock(ms).slice(0, 5)}`;
}

/** `LEVEL_UNKNOWN` as `level unknown`. */
export const words = (code) => (code || "").toLowerCase().replaceAll("_", " ");
