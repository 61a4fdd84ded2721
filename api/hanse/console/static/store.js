// What is known of the federation, kept up to date by the live stream.
//
// The stream says what has changed and nothing else. When it breaks the browser asks again from the last id it saw; the
// page shows what it knew, greyed, and since when. While the page is hidden nothing is followed.

import { byColumn } from "./dom.js";
import { now, setServerTime } from "./fmt.js";

const EVENTS_KEPT = 400;
const SILENT_MS = 26_000;
const RETRY_MS = [500, 1_000, 2_000, 4_000, 8_000];
const HISTORY = 150;

export const store = {
  pools: new Map(), // by name
  poolsVersion: 0,
  ready: false,
  events: [], // the newest first
  status: null,
  history: [], // [at, bound/s, conflict share, refusal share, waiting]
  state: "connecting",
  lostSince: 0,
  refused: "",
  may: { operate: true, change: true }, // the server has the last word
};

const listeners = new Set();
let source = null;
let last = "";
let tries = 0;
let timer = 0;
let silence = 0;
let poolColumns = [];
let eventColumns = [];

export function listen(call) {
  listeners.add(call);
  return () => listeners.delete(call);
}

function tell(what) {
  for (const call of [...listeners]) call(what);
}

export function connect() {
  clearTimeout(timer);
  source?.close();
  source = new EventSource(`/api/live${last ? `?after=${encodeURIComponent(last)}` : ""}`);
  source.addEventListener("frame", (event) => { last = event.lastEventId; alive(); take(JSON.parse(event.data)); });
  source.addEventListener("beat", alive);
  source.addEventListener("refused", (event) => {
    store.refused = JSON.parse(event.data).error.message;
    lose();
  });
  source.onerror = lose;
  watchSilence();
}

export function disconnect() {
  clearTimeout(timer);
  clearTimeout(silence);
  source?.close();
  source = null;
}

function alive() {
  tries = 0;
  store.refused = "";
  watchSilence();
  if (store.state !== "live") {
    store.state = "live";
    store.lostSince = 0;
    tell("connection");
  }
}

function watchSilence() {
  clearTimeout(silence);
  silence = setTimeout(lose, SILENT_MS);
}

function lose() {
  source?.close();
  source = null;
  if (document.hidden) return;
  if (store.state !== "lost" && tries > 0) {
    store.state = "lost";
    store.lostSince = now();
    tell("connection");
  }
  const wait = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)];
  tries += 1;
  clearTimeout(timer);
  timer = setTimeout(connect, wait * (0.8 + 0.4 * Math.random()));
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else if (!source) connect();
});

// ---- frames ----

function take(frame) {
  if (frame.pools) takePools(frame.pools);
  if (frame.status) takeStatus(frame.status);
  if (frame.events) takeEvents(frame.events);
}

function takePools(value) {
  if (value.anew) {
    store.pools.clear();
    poolColumns = value.columns;
    store.total = value.total;
  }
  for (const row of value.rows) {
    const pool = byColumn(poolColumns, row);
    store.pools.set(pool.name, pool);
  }
  for (const name of value.removed || []) store.pools.delete(name);
  store.ready = true;
  store.poolsVersion += 1;
  tell("pools");
}

function takeStatus(value) {
  setServerTime(value.at);
  store.status = value;
  const replicas = value.replicas;
  const sum = (name) => replicas.reduce((all, one) => all + one[name], 0);
  const worst = (name) => replicas.reduce((most, one) => Math.max(most, one[name]), 0);
  store.history.push([value.at, sum("bound_per_s"), worst("conflict_fraction"), worst("refusal_fraction"), sum("pending_jobs")]);
  if (store.history.length > HISTORY) store.history.shift();
  tell("status");
}

function takeEvents(value) {
  if (value.columns) {
    eventColumns = value.columns;
    store.events = [];
  }
  const news = value.rows.map((row) => byColumn(eventColumns, row)).reverse();
  store.events = [...news, ...store.events].slice(0, EVENTS_KEPT);
  store.skipped = value.skipped;
  store.news = news;
  tell("events");
}

export function totals() {
  const all = { gpus: 0, free: 0, nodes: 0, broken: 0, gangs: 0, held: 0, stopping: 0, whole: 0, pools: store.pools.size };
  for (const pool of store.pools.values())
    for (const name of ["gpus", "free", "nodes", "broken", "gangs", "held", "stopping", "whole"]) all[name] += pool[name];
  return all;
}
