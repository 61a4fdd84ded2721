// Racks as cells: how full a rack is, is how far its cell is filled. What is free in whole hosts stays empty, what is
// free only in parts of hosts is hatched; held, releasing and broken have colours and strokes of their own.

import { palette } from "./theme.js";

export function sharp(canvas, width, height) {
  const ratio = Math.min(2, devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

const patterns = new Map();

/** A stroke pattern in a colour: the second mark of a state, for eyes that do not tell colours apart. */
function hatch(context, colour, kind) {
  const key = `${colour}|${kind}`;
  if (!patterns.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const c = tile.getContext("2d");
    c.strokeStyle = c.fillStyle = colour;
    c.lineWidth = 2.2;
    if (kind === "rows") { c.fillRect(0, 0, 8, 2.4); c.fillRect(0, 4, 8, 2.4); }
    if (kind === "columns") { c.fillRect(0, 0, 2.4, 8); c.fillRect(4, 0, 2.4, 8); }
    if (kind === "diagonal" || kind === "cross") { c.lineWidth = kind === "cross" ? 1.8 : 1.5; c.beginPath(); c.moveTo(-2, 6); c.lineTo(6, -2); c.moveTo(2, 10); c.lineTo(10, 2); c.stroke(); }
    if (kind === "cross") { c.beginPath(); c.moveTo(-2, 2); c.lineTo(6, 10); c.moveTo(2, -2); c.lineTo(10, 6); c.stroke(); }
    patterns.set(key, context.createPattern(tile, "repeat"));
    const pattern = patterns.get(key);
    pattern.setTransform(new DOMMatrix().scale(0.5));
  }
  return patterns.get(key);
}

/** One cell. `part`: shares of its GPUs: busy, held, releasing, broken, parts (free, but in no whole host). */
export function drawCell(context, x, y, w, h, part, lit = false) {
  const c = palette();
  const radius = Math.min(2.5, w / 4, h / 4);
  context.beginPath();
  context.roundRect(x, y, w, h, radius);
  context.fillStyle = c.free;
  context.fill();
  context.save();
  if (w >= 5 && h >= 5) context.clip();
  let bottom = y + h;
  const layer = (share, fillStyle, under) => {
    if (!(share > 0)) return;
    const high = Math.max(1, h * share);
    if (under) { context.globalAlpha = under; context.fillStyle = c[fillStyle.name]; context.fillRect(x, bottom - high, w, high); context.globalAlpha = 1; }
    context.fillStyle = fillStyle.style;
    context.fillRect(x, bottom - high, w, high);
    bottom -= high;
  };
  layer(part.broken, { name: "broken", style: w < 5 ? c.broken : hatch(context, c.broken, "cross") }, 0.18);
  layer(part.busy, { name: "busy", style: c.busy });
  layer(part.releasing, { name: "releasing", style: hatch(context, c.releasing, "columns") }, 0.4);
  layer(part.held, { name: "held", style: hatch(context, c.held, "rows") }, 0.45);
  if (w >= 5 && h >= 4) layer(part.parts, { name: "busy", style: hatch(context, c.busy, "diagonal") });
  context.restore();
  if (w >= 6 && h >= 5 && (part.busy || 0) < 0.999) {
    context.beginPath();
    context.roundRect(x + 0.5, y + 0.5, w - 1, h - 1, radius);
    context.strokeStyle = c.freeLine;
    context.lineWidth = 1;
    context.stroke();
  }
  if (lit) {
    context.beginPath();
    context.roundRect(x - 1, y - 1, w + 2, h + 2, radius + 1);
    context.strokeStyle = c.text;
    context.lineWidth = 2;
    context.stroke();
  }
}

/** Blocks of a shape as lists of cells `{hosts, gpus, free, whole}`, copies spelled out. */
export function blocksOf(shape) {
  const blocks = [];
  for (const [copies, runs] of shape.rows) {
    const cells = [];
    for (const [many, hosts, gpus, free, whole] of runs)
      for (let i = 0; i < many; i += 1) cells.push({ hosts, gpus, free, whole });
    for (let i = 0; i < copies; i += 1) blocks.push(cells);
  }
  return blocks;
}

/** Racks as an agent tells them, by the domain that holds them; each row has a `label`. */
export function blocksOfRacks(racks) {
  const blocks = new Map();
  for (const rack of racks) {
    const block = rack.path.slice(0, -1).join(" / ");
    if (!blocks.has(block)) blocks.set(block, Object.assign([], { label: block }));
    blocks.get(block).push({ ...rack, name: rack.path.join(" / ") });
  }
  return [...blocks.values()];
}

export function shares(cell) {
  const gpus = Math.max(1, cell.gpus);
  const each = cell.hosts > (cell.broken || 0) ? (cell.gpus - (cell.out || 0)) / (cell.hosts - (cell.broken || 0)) : 0;
  const parts = Math.max(0, cell.free - cell.whole * each);
  const [held, releasing, broken] = [(cell.held || 0) / gpus, (cell.releasing || 0) / gpus, (cell.out || 0) / gpus];
  return { busy: Math.max(0, (cell.gpus - cell.free) / gpus - held - releasing - broken), held, releasing, broken, parts: parts / gpus };
}

/** Several cells as one, where there is no room for each. */
function merged(cells) {
  const all = { hosts: 0, gpus: 0, free: 0, whole: 0, broken: 0, held: 0, releasing: 0, out: 0 };
  for (const cell of cells) for (const name of Object.keys(all)) all[name] += cell[name] || 0;
  return all;
}

/** Draw blocks as rows into a box; returns the geometry, for finding what is under the mouse. `lit` are names. */
export function drawBlocks(context, blocks, x, y, w, h, { smallest = 3, lit = null } = {}) {
  const label = w > 380 && blocks.some((block) => block.label) ? 64 : 0;
  x += label;
  w -= label;
  let rows = blocks.length > 1 && blocks.every((block) => block.length === 1) ? [blocks.flat()] : blocks;
  if (rows.length === 1 && rows[0].length > 12) rows = field(rows[0], w / h);
  blocks = rows;
  const wide = Math.max(1, ...blocks.map((block) => block.length));
  const gap = w / wide > 10 ? 2 : 1;
  if (blocks.length * (smallest + 1) > h || wide * (smallest + 1) > w) rows = packed(blocks, w, h, smallest);
  const columns = Math.max(1, ...rows.map((row) => row.length));
  const cw = Math.min(64, (w - gap * (columns - 1)) / columns);
  const rowGap = h / rows.length > 14 ? 3 : gap;
  const ch = Math.min(Math.max(22, 2.2 * cw), 46, (h - rowGap * (rows.length - 1)) / rows.length);
  const c = palette();
  rows.forEach((row, r) => {
    if (label && row.label !== undefined && ch >= 9) {
      context.globalAlpha = 1;
      context.font = `500 11.5px ${c.sans}`;
      context.fillStyle = c.mute;
      context.textBaseline = "middle";
      context.fillText(row.label, x - label, y + r * (ch + rowGap) + ch / 2, label - 8);
      context.textBaseline = "alphabetic";
    }
    row.forEach((cell, i) => {
      context.globalAlpha = !lit || lit.has(cell.name) ? 1 : 0.28;
      drawCell(context, x + i * (cw + gap), y + r * (ch + rowGap), cw, ch, shares(cell), lit?.has(cell.name) && cw >= 6);
    });
  });
  context.globalAlpha = 1;
  return { rows, x, y, cw, ch, gap, rowGap };
}

/** Racks that no block tells apart, in rows. */
function field(cells, ratio) {
  const columns = Math.max(1, Math.ceil(Math.sqrt((cells.length * ratio) / 1.4)));
  const rows = [];
  for (let i = 0; i < cells.length; i += columns) rows.push(cells.slice(i, i + columns));
  return rows;
}

function packed(blocks, w, h, smallest) {
  const cells = blocks.flat();
  const side = smallest + 2;
  const columns = Math.max(1, Math.floor(w / side));
  const room = columns * Math.max(1, Math.floor(h / side));
  const each = Math.ceil(cells.length / room);
  const bins = [];
  for (let i = 0; i < cells.length; i += each) bins.push(each === 1 ? cells[i] : merged(cells.slice(i, i + each)));
  const rows = [];
  for (let i = 0; i < bins.length; i += columns) rows.push(bins.slice(i, i + columns));
  return rows;
}

export function cellAt(geometry, x, y) {
  const column = Math.floor((x - geometry.x) / (geometry.cw + geometry.gap));
  const row = Math.floor((y - geometry.y) / (geometry.ch + geometry.rowGap));
  return geometry.rows[row]?.[column] ? { row, column, cell: geometry.rows[row][column] } : null;
}
