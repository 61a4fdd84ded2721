// The fleet as one canvas: a panel for each pool, as large as there is room for; only what can be seen is drawn.
//
// The canvas is as large as the window, however many pools there are, and sticks while a spacer under it scrolls. Panels
// lose detail as they get smaller: racks in blocks, then racks in a field, then one filled tile. Pictures of free
// capacity are fetched for the panels in sight, and again when their pool has changed.

import { cellAt, drawBlocks, drawCell, sharp, shares } from "./cells.js";
import { n, percent, short } from "./fmt.js";
import { palette } from "./theme.js";

const GAP = 12;
const PAD = 24;
const SIZES = [
  { most: 9, width: 300, height: 232, cells: true },
  { most: 30, width: 232, height: 176, cells: true },
  { most: 120, width: 164, height: 112, cells: true },
  { most: 400, width: 112, height: 58, cells: false },
  { most: Infinity, heat: true, width: 18, height: 14, cells: false },
];
const HEAT_GAP = 3;
const OUT_OF_ORDER = 0.1; // of its hosts: from then on a small tile says so

export class FleetMap {
  constructor(wrap, canvas, spacer) {
    this.wrap = wrap;
    this.canvas = canvas;
    this.spacer = spacer;
    this.pools = [];
    this.shapes = new Map(); // by name: {version, blocks}
    this.lit = new Set();
    this.hover = -1;
    this.selected = -1;
    this.drawn = new Map();
  }

  setPools(pools) {
    const chosen = this.pools[this.selected]?.name;
    this.pools = pools;
    this.selected = chosen ? pools.findIndex((pool) => pool.name === chosen) : -1;
    this.layout();
  }

  layout() {
    const width = this.wrap.clientWidth;
    this.size = SIZES.find((size) => this.pools.length <= size.most);
    this.gap = this.size.heat ? HEAT_GAP : this.pools.length > 120 ? 6 : GAP;
    const usable = width - 2 * PAD;
    if (this.size.heat) { this.layoutHeat(usable); return; }
    this.columns = Math.max(1, Math.min(this.pools.length || 1, Math.floor((usable + this.gap) / (this.size.width + this.gap))));
    this.panel = Math.min((usable - this.gap * (this.columns - 1)) / this.columns, 520);
    const lines = Math.ceil(this.pools.length / this.columns);
    const room = this.wrap.clientHeight - 2 * PAD + 8;
    const fit = (room - this.gap * (lines - 1)) / Math.max(1, lines);
    this.high = this.size.cells ? Math.max(this.size.height, Math.min(fit, this.panel * 0.82, 330)) : this.size.height;
    const total = PAD - 4 + lines * (this.high + this.gap) + PAD;
    this.spacer.style.height = `${Math.max(0, total - this.wrap.clientHeight)}px`;
    this.draw();
  }

  /** All pools at once, as small as they have to be. */
  layoutHeat(usable) {
    const room = this.wrap.clientHeight - 2 * PAD + 8;
    this.columns = Math.max(1, Math.min(Math.floor(usable / this.size.width), Math.ceil(Math.sqrt((this.pools.length * usable) / Math.max(1, room) / 1.5))));
    const lines = Math.ceil(this.pools.length / this.columns);
    this.panel = (usable - this.gap * (this.columns - 1)) / this.columns;
    this.high = Math.max(this.size.height, (room - this.gap * (lines - 1)) / lines);
    this.spacer.style.height = `${Math.max(0, PAD - 4 + lines * (this.high + this.gap) + PAD - this.wrap.clientHeight)}px`;
    this.draw();
  }

  place(index) {
    const column = index % this.columns;
    const line = Math.floor(index / this.columns);
    return { x: PAD + column * (this.panel + this.gap), y: PAD - 4 + line * (this.high + this.gap) - this.wrap.scrollTop };
  }

  /** Whether panels are few enough to ask agents what becomes of each rack. */
  get close() {
    return this.pools.length <= SIZES[1].most;
  }

  /** Names of the pools that can be seen, and a line beyond. */
  visible() {
    if (!this.size?.cells) return [];
    const first = Math.max(0, Math.floor((this.wrap.scrollTop - PAD) / (this.high + this.gap)));
    const last = Math.ceil((this.wrap.scrollTop + this.wrap.clientHeight) / (this.high + this.gap)) + 1;
    return this.pools.slice(first * this.columns, last * this.columns);
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const width = this.wrap.clientWidth;
    const height = this.wrap.clientHeight;
    if (!width || !height) return;
    const context = sharp(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    context.textBaseline = "alphabetic";
    this.drawn.clear();
    this.pools.forEach((pool, index) => {
      const { x, y } = this.place(index);
      if (y + this.high < 0 || y > height) return;
      if (this.size.cells) this.drawPanel(context, pool, index, x, y);
      else if (this.size.heat) this.drawHeat(context, pool, index, x, y);
      else this.drawTile(context, pool, index, x, y);
    });
  }

  frameOf(context, pool, index, x, y, radius) {
    const c = palette();
    context.beginPath();
    context.roundRect(x + 0.5, y + 0.5, this.panel - 1, this.high - 1, radius);
    context.fillStyle = index === this.hover ? c.bg3 : c.bg2;
    context.fill();
    const chosen = index === this.selected || this.lit.has(pool.name);
    context.strokeStyle = chosen ? c.text : index === this.hover ? c.line2 : c.line;
    context.lineWidth = chosen ? 2 : 1;
    context.stroke();
  }

  drawPanel(context, pool, index, x, y) {
    const c = palette();
    const small = this.high < 130;
    const pad = small ? 10 : 14;
    this.frameOf(context, pool, index, x, y, 11);
    const w = this.panel - 2 * pad;
    context.font = `600 ${small ? 12 : 13.5}px ${c.sans}`;
    context.fillStyle = c.text;
    const free = `${short(pool.free)} free`;
    context.font = `500 ${small ? 11 : 12.5}px ${c.sans}`;
    const freeWidth = context.measureText(free).width;
    context.fillStyle = c.dim;
    context.textAlign = "right";
    context.fillText(free, x + this.panel - pad, y + pad + 10);
    context.textAlign = "left";
    context.font = `600 ${small ? 12 : 13.5}px ${c.sans}`;
    context.fillStyle = c.text;
    context.fillText(cut(context, pool.name, w - freeWidth - 12), x + pad, y + pad + 10);
    let top = y + pad + 20;
    if (!small) {
      context.font = `400 11.5px ${c.sans}`;
      context.fillStyle = c.mute;
      const gpus = pool.flavors.map(([flavor]) => flavor).join(" ");
      context.fillText(cut(context, [pool.region, `${n(pool.gpus)} ${gpus}`].filter(Boolean).join(" · "), w), x + pad, top + 7);
      top += 20;
    }
    const bottom = y + this.high - pad;
    const foot = small ? 0 : 18;
    const known = this.shapes.get(pool.name);
    context.globalAlpha = pool.state === "healthy" || pool.state === "cordoned" || pool.state === "draining" ? 1 : 0.45;
    if (known?.blocks.length) {
      this.drawn.set(index, drawBlocks(context, known.blocks, x + pad, top, w, bottom - top - foot - 4));
    } else {
      this.strip(context, pool, x + pad, top + 2, w, Math.max(6, Math.min(12, bottom - top - foot)));
    }
    context.globalAlpha = 1;
    if (!small) this.foot(context, pool, x + pad, bottom, w);
    else if (pool.state !== "healthy") mark(context, pool, x + this.panel - pad - 4, bottom - 3, c);
  }

  foot(context, pool, x, y, w) {
    const c = palette();
    context.font = `450 11.5px ${c.sans}`;
    const words = [`${percent(pool.gpus - pool.free, pool.gpus)} % busy`, `${n(pool.gangs)} gang${pool.gangs === 1 ? "" : "s"}`];
    let at = x;
    const put = (text, colour, draw) => {
      if (at - x + context.measureText(text).width > w) return;
      if (draw) { draw(at + 4, y - 4); at += 13; }
      context.fillStyle = colour;
      context.fillText(text, at, y);
      at += context.measureText(text).width + 12;
    };
    for (const word of words) put(word, c.dim);
    if (pool.held) put(`${n(pool.held)} held`, c.held, (px, py) => dot(context, px, py, c.held, "rows"));
    if (pool.stopping) put(`${n(pool.stopping)} ending`, c.releasing, (px, py) => dot(context, px, py, c.releasing, "columns"));
    if (pool.broken) put(`${n(pool.broken)} host${pool.broken === 1 ? "" : "s"} out`, c.broken, (px, py) => dot(context, px, py, c.broken, "cross"));
    if (pool.state !== "healthy") put(pool.state, stateColour(pool.state, c), (px, py) => dot(context, px, py, stateColour(pool.state, c), "cross"));
  }

  strip(context, pool, x, y, w, h) {
    const c = palette();
    context.fillStyle = c.free;
    context.beginPath();
    context.roundRect(x, y, w, h, 3);
    context.fill();
    context.fillStyle = c.busy;
    context.beginPath();
    context.roundRect(x, y, (w * (pool.gpus - pool.free)) / Math.max(1, pool.gpus), h, 3);
    context.fill();
  }

  drawHeat(context, pool, index, x, y) {
    const c = palette();
    const well = pool.state === "healthy";
    context.globalAlpha = well ? 1 : 0.45;
    const chosen = index === this.selected || index === this.hover || this.lit.has(pool.name);
    drawCell(context, x, y, this.panel, this.high, { busy: (pool.gpus - pool.free) / Math.max(1, pool.gpus) }, chosen);
    context.globalAlpha = 1;
    if (!well || pool.broken > OUT_OF_ORDER * (pool.nodes + pool.broken)) mark(context, pool, x + this.panel / 2, y + this.high / 2, c);
  }

  drawTile(context, pool, index, x, y) {
    const c = palette();
    this.frameOf(context, pool, index, x, y, 6);
    const busy = (pool.gpus - pool.free) / Math.max(1, pool.gpus);
    context.globalAlpha = pool.state === "healthy" ? 1 : 0.4;
    const inner = this.panel - 12;
    context.fillStyle = c.free;
    context.fillRect(x + 6, y + this.high - 14, inner, 8);
    context.fillStyle = c.busy;
    context.fillRect(x + 6, y + this.high - 14, inner * busy, 8);
    context.globalAlpha = 1;
    context.font = `500 ${this.panel > 100 ? 11 : 9.5}px ${c.sans}`;
    context.fillStyle = c.text;
    context.fillText(cut(context, pool.name, inner - (pool.state === "healthy" ? 0 : 11)), x + 6, y + 16);
    if (this.panel > 100 && this.high > 50) {
      context.font = `400 10px ${c.sans}`;
      context.fillStyle = c.mute;
      context.fillText(`${short(pool.free)} free`, x + 6, y + 32);
    }
    if (pool.state !== "healthy" || pool.broken > OUT_OF_ORDER * (pool.nodes + pool.broken)) mark(context, pool, x + this.panel - 9, y + 9, c);
  }

  at(x, y) {
    const top = y + this.wrap.scrollTop - PAD + 4;
    const column = Math.floor((x - PAD) / (this.panel + this.gap));
    const line = Math.floor(top / (this.high + this.gap));
    if (column < 0 || column >= this.columns || line < 0) return -1;
    if ((x - PAD) % (this.panel + this.gap) > this.panel || top % (this.high + this.gap) > this.high) return -1;
    const index = line * this.columns + column;
    return index < this.pools.length ? index : -1;
  }

  cell(index, x, y) {
    const geometry = this.drawn.get(index);
    return geometry ? cellAt(geometry, x, y) : null;
  }

  select(index) {
    this.selected = Math.max(0, Math.min(this.pools.length - 1, index));
    const { y } = this.place(this.selected);
    if (y < 8) this.wrap.scrollTop += y - 16;
    else if (y + this.high > this.wrap.clientHeight) this.wrap.scrollTop += y + this.high - this.wrap.clientHeight + 16;
    this.draw();
    return this.pools[this.selected];
  }

  take(name, version, blocks) {
    this.shapes.set(name, { version, blocks });
    if (this.shapes.size > 400) this.shapes.delete(this.shapes.keys().next().value);
    this.draw();
  }
}

export const cellWords = ({ cell }) => {
  const share = shares(cell);
  const words = [`${n(cell.free)} of ${n(cell.gpus)} GPUs free`, `${n(cell.whole)} of ${n(cell.hosts)} hosts whole`];
  if (share.parts > 0.001) words.push("the rest in parts of hosts");
  for (const [name, said] of [["held", "held"], ["releasing", "being released"], ["out", "out of order"]]) if (cell[name]) words.push(`${n(cell[name])} ${said}`);
  return words;
};

function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

const stateColour = (state, c) => (state === "stale" || state === "detached" ? c.broken : state === "draining" || state === "leaving" ? c.releasing : c.held);

function mark(context, pool, x, y, c) {
  dot(context, x, y, pool.broken && pool.state === "healthy" ? c.broken : stateColour(pool.state, c), "cross");
}

function dot(context, x, y, colour, kind) {
  if (kind === "cross") { // readable on whatever is below
    context.strokeStyle = palette().bg;
    context.lineWidth = 4.5;
    context.beginPath();
    context.moveTo(x - 3, y - 3); context.lineTo(x + 3, y + 3); context.moveTo(x + 3, y - 3); context.lineTo(x - 3, y + 3);
    context.stroke();
  }
  context.strokeStyle = colour;
  context.lineWidth = 1.6;
  context.beginPath();
  if (kind === "cross") { context.moveTo(x - 3, y - 3); context.lineTo(x + 3, y + 3); context.moveTo(x + 3, y - 3); context.lineTo(x - 3, y + 3); }
  if (kind === "rows") for (const dy of [-3, 0, 3]) { context.moveTo(x - 4, y + dy); context.lineTo(x + 4, y + dy); }
  if (kind === "columns") for (const dx of [-3, 0, 3]) { context.moveTo(x + dx, y - 4); context.lineTo(x + dx, y + 4); }
  context.stroke();
}
