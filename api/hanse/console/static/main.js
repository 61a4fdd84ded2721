// Begins the page: which view, which keys, who looks.

import { get, post, whenUnknown } from "./api.js";
import { $, fill, h, say, speak } from "./dom.js";
import { openSearch } from "./find.js";
import { since } from "./fmt.js";
import { connect, disconnect, listen, store } from "./store.js";
import { applyTheme, switchTheme } from "./theme.js";
import { mount as fleet } from "./view_fleet.js";
import { mount as job } from "./view_job.js";
import { mount as jobs } from "./view_jobs.js";
import { mount as now } from "./view_now.js";
import { mount as pool } from "./view_pool.js";
import { mount as queues } from "./view_queues.js";

const ROUTES = [
  [/^#?\/?$/, "fleet", fleet],
  [/^#\/pools\/([^/?]+)$/, "fleet", pool],
  [/^#\/queues(?:\/([^/?]+))?$/, "queues", queues],
  [/^#\/jobs$/, "jobs", jobs],
  [/^#\/jobs\/([^/?]+)$/, "jobs", job],
  [/^#\/now$/, "now", now],
];
const KEYS = [
  [["f"], "the fleet"], [["q"], "queues"], [["a"], "all jobs"], [["n"], "now"], [["/"], "search jobs, pools, queues"], [["j", "k"], "next and previous in a list"],
  [["↑", "↓", "←", "→"], "move over the map"], [["Enter"], "open what is chosen"], [["x"], "cancel a job"], [["c", "u"], "cordon and uncordon a pool"], [["l"], "to the log of a job"],
  [["i"], "to the filter of a list"], [["t"], "dark or light"], [["Backspace"], "back"], [["?"], "these keys"],
];

let view = null;
let shownRoute = null;
const root = $("main");

function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

function route() {
  const [path, query = ""] = location.hash.split("?");
  for (const [pattern, name, mount] of ROUTES) {
    const match = pattern.exec(path || "#/");
    if (!match) continue;
    const params = match.slice(1).map((text) => (text === undefined ? undefined : safeDecode(text)));
    for (const link of $("nav").children) link.toggleAttribute("aria-current", false);
    $("nav").querySelector(`[data-view="${name}"]`).setAttribute("aria-current", "page");
    if (shownRoute === mount && view?.change) { view.change(params); return; }
    view?.end();
    root.scrollTop = 0;
    shownRoute = mount;
    view = mount(root, params, go, new URLSearchParams(query));
    document.title = view.title ? `${view.title} · Hanse` : "Hanse";
    speak(view.title || "Fleet");
    return;
  }
  go("#/");
}

function safeDecode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function help() {
  if (document.querySelector("dialog.help")) return;
  const box = h("dialog", { class: "help", "aria-label": "Keys" }, h("div", { class: "in" }, h("h2", {}, "Keys"),
    h("dl", { class: "keys" }, KEYS.map(([keys, text]) => [h("dt", {}, keys.map((key) => h("kbd", {}, key))), h("dd", {}, text)])),
    h("div", { class: "ends" }, h("button", { type: "button", onclick: () => box.close() }, "Close"))));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const inField = event.target.closest?.("input, select, textarea");
  if (inField) {
    if (event.key === "Escape") { event.target.blur(); root.focus(); }
    return;
  }
  const common = { "/": () => openSearch(go), "?": help, f: () => go("#/"), q: () => go("#/queues"), a: () => go("#/jobs"), n: () => go("#/now"), t: switchTheme, i: () => view?.filter?.(), Backspace: () => history.back() };
  const onControl = event.target.closest?.("a, button") && (event.key === "Enter" || event.key === " ");
  const call = !onControl && (view?.keys?.[event.key] || common[event.key]);
  if (call) { event.preventDefault(); call(); }
}

function connection() {
  const live = $("live");
  live.dataset.state = store.state;
  say(live, { live: "live", lost: "not live", connecting: "connecting" }[store.state]);
  document.body.classList.toggle("lost", store.state === "lost");
  const banner = $("banner");
  banner.hidden = store.state !== "lost";
  if (!banner.hidden) fill(banner, h("b", {}, "The server does not answer."), h("span", {}, store.refused || `What you see is ${since(store.lostSince)} old. Trying again; what runs is not touched by this.`));
}

async function begin() {
  let me;
  try { me = await get("me"); } catch (error) {
    if (error.status === 401) return;
    setTimeout(begin, 1_500);
    store.state = "lost";
    store.lostSince ||= Date.now();
    connection();
    return;
  }
  say($("federation"), me.federation && me.federation !== "hanse" ? me.federation : "");
  store.may = me.may;
  $("leave").hidden = me.anonymous;
  $("leave").title = `signed in as ${me.principal}`;
  connect();
  route();
}

function login() {
  disconnect();
  view?.end();
  view = null;
  shownRoute = null;
  const said = h("p", { class: "dim", role: "status" }, "This console shows what you may see. Paste the token that you were given; it is kept until the browser closes.");
  const token = h("input", { type: "password", autocomplete: "off", "aria-label": "Token", placeholder: "Token", id: "token" });
  const form = h("form", {}, h("h1", {}, "Who looks?"), said, token, h("button", { type: "submit" }, "Sign in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("login", { token: token.value });
      begin();
    } catch (error) { fill(said, error.message); token.select(); }
  });
  fill(root, h("div", { class: "page login" }, h("section", { class: "card" }, form)));
  token.focus();
}

applyTheme();
let asking = false;
whenUnknown(() => {
  if (asking || root.querySelector("#token")) return;
  asking = true;
  queueMicrotask(() => { asking = false; login(); });
});
listen((what) => what === "connection" && connection());
setInterval(() => store.state === "lost" && connection(), 1_000);
addEventListener("hashchange", () => $("token") || route());
addEventListener("keydown", press);
$("search").addEventListener("click", () => openSearch(go));
$("theme").addEventListener("click", switchTheme);
$("help").addEventListener("click", help);
$("leave").addEventListener("click", async () => { await post("logout").catch(() => {}); login(); });
begin();
