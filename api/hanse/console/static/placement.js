// Where a gang is: the racks that it has, in their blocks, and which ranks are in each.

import { cellAt, drawBlocks, drawCell, sharp } from "./cells.js";
import { fill, h, tip } from "./dom.js";
import { n, plural } from "./fmt.js";
import { cellWords } from "./map.js";
import { palette } from "./theme.js";

const LABEL = 92;
const ROWS = 40;
const LISTED = 200;

export function placement(element, found, pools) {
  const racks = found.racks.map(([pool, path, set, hosts, pods, ranks]) => ({ pool, path, set, hosts, pods, ranks, block: [pool, ...path.slice(0, -1)].join(" / "), name: path.at(-1) || "" }));
  if (!racks.length) {
    fill(element, h("p", { class: "empty" }, found.silent.length ? `The agent of ${found.silent.join(", ")} does not answer; what runs there runs on.` : "Its agent has not said where it is yet."));
    return;
  }
  const parts = [...new Set(racks.map((rack) => rack.pool))];
  const canvases = parts.map((pool) => h("div", { class: "part" }, parts.length > 1 ? h("p", { class: "mute" }, pool) : null,
    h("canvas", { class: "cells", role: "img", "aria-label": `${plural(racks.filter((rack) => rack.pool === pool).length, "rack")} of ${pool} in use`, "data-pool": pool })));
  const several = new Set(racks.map((rack) => rack.set)).size > 1;
  const list = h("div", { class: "ranks", tabindex: "0", role: "group", "aria-label": "Racks and ranks" }, racks.slice(0, LISTED).map((rack) =>
    h("div", {}, h("span", { class: "cut" }, rack.path.join(" / ") || rack.pool), h("span", { class: "mute" }, plural(rack.hosts, "host")), h("span", { class: "num" }, `${several ? `${rack.set} ` : ""}${rack.ranks.replaceAll("-", "–")}`))),
    racks.length > LISTED ? h("p", { class: "mute" }, `and ${plural(racks.length - LISTED + found.left_out, "rack")} more`) : null);
  const hosts = h("details", { class: "more" }, h("summary", {}, plural(found.nodes.length + found.nodes_left_out, "host"), " by name"));
  hosts.addEventListener("toggle", () => hosts.childElementCount < 2 && hosts.append(h("div", { class: "ranks" },
    found.nodes.map(([name, set, ranks, path]) => h("div", {}, h("span", { class: "cut" }, name), h("span", { class: "cut mute" }, path.join(" / ")), h("span", { class: "num" }, `${several ? `${set} ` : ""}${ranks}`))),
    found.nodes_left_out ? h("p", { class: "mute" }, `and ${plural(found.nodes_left_out, "host")} more: hanse job NAME --nodes`) : null)), { once: true });
  fill(element, canvases, h("h2", { class: "apart" }, "Ranks by rack"), list, hosts,
    found.silent.length ? h("p", { class: "mute" }, `${found.silent.join(", ")} did not answer.`) : null);
  for (const part of canvases) {
    const canvas = part.querySelector("canvas");
    const mine = racks.filter((rack) => rack.pool === canvas.dataset.pool);
    if (pools.get(canvas.dataset.pool)?.length) drawOver(canvas, pools.get(canvas.dataset.pool), mine, element.clientWidth);
    else draw(canvas, mine, element.clientWidth);
  }
}

/** The whole pool, with the racks of this gang lit. */
export function drawOver(canvas, blocks, mine, width) {
  if (width < 100) return;
  const wide = Math.max(...blocks.map((block) => block.length));
  const high = Math.min(380, Math.max(60, blocks.length * (wide > 40 ? 13 : 27)));
  const context = sharp(canvas, width, high);
  context.clearRect(0, 0, width, high);
  const ranks = new Map();
  for (const rack of mine) ranks.set(rack.path.join(" / "), [...(ranks.get(rack.path.join(" / ")) || []), rack]);
  const geometry = drawBlocks(context, blocks, 2, 2, width - 4, high - 4, { lit: new Set(ranks.keys()) });
  canvas.onmousemove = (e) => {
    const box = canvas.getBoundingClientRect();
    const spot = cellAt(geometry, e.clientX - box.left, e.clientY - box.top);
    const here = spot && ranks.get(spot.cell.name);
    if (!spot) tip();
    else tip(e.clientX, e.clientY, h("b", {}, spot.cell.name), here && !here[0].free ? here.map((rack) => h("div", {}, `${plural(rack.hosts, "host")} of this gang, ranks ${rack.ranks.slice(0, 100)}`)) : null, h("div", { class: "dim" }, cellWords(spot).join(", ")));
  };
  canvas.onmouseleave = () => tip();
}

function draw(canvas, racks, width) {
  if (width < 100) return;
  const blocks = new Map();
  for (const rack of racks) {
    if (!blocks.has(rack.block)) blocks.set(rack.block, new Map());
    const row = blocks.get(rack.block);
    const cell = row.get(rack.name) || { ...rack, hosts: 0, pods: 0, all: [] };
    cell.hosts += rack.hosts;
    cell.pods += rack.pods;
    cell.all.push(`${rack.set ? `${rack.set} ` : ""}${rack.ranks}`);
    row.set(rack.name, cell);
  }
  const rows = [...blocks].slice(0, ROWS);
  const most = Math.max(...racks.map((rack) => rack.hosts));
  const wide = Math.max(...rows.map(([, row]) => row.size));
  const columns = Math.min(wide, Math.floor((width - LABEL) / 22));
  const side = Math.min(44, Math.floor((width - LABEL) / columns) - 4);
  const tall = Math.min(30, side);
  const lines = rows.flatMap(([block, row]) => {
    const cells = [...row.values()];
    const found = [];
    for (let i = 0; i < cells.length; i += columns) found.push([i ? "" : block, cells.slice(i, i + columns)]);
    return found;
  });
  const high = lines.length * (tall + 6) + 4;
  const context = sharp(canvas, width, high);
  const c = palette();
  context.textBaseline = "middle";
  const spots = [];
  lines.forEach(([block, cells], r) => {
    const y = 2 + r * (tall + 6);
    context.font = `500 12px ${c.sans}`;
    context.fillStyle = c.dim;
    context.fillText(short(block), 0, y + tall / 2, LABEL - 8);
    cells.forEach((cell, i) => {
      const x = LABEL + i * (side + 4);
      drawCell(context, x, y, side, tall, { busy: cell.hosts / Math.max(most, cell.hosts) });
      if (side >= 30) {
        context.font = `600 11px ${c.sans}`;
        context.textAlign = "center";
        context.fillStyle = c.bg;
        context.fillText(n(cell.hosts), x + side / 2, y + tall / 2 + 0.5);
        context.textAlign = "left";
      }
      spots.push({ x, y, cell });
    });
  });
  canvas.onmousemove = (e) => {
    const box = canvas.getBoundingClientRect();
    const spot = spots.find((one) => e.clientX - box.left >= one.x && e.clientX - box.left < one.x + side && e.clientY - box.top >= one.y && e.clientY - box.top < one.y + tall);
    if (spot) tip(e.clientX, e.clientY, h("b", {}, [spot.cell.block, spot.cell.name].join(" / ")), h("div", { class: "dim" }, `${plural(spot.cell.hosts, "host")}, ${plural(spot.cell.pods, "pod")}`), h("div", { class: "dim" }, `ranks ${spot.cell.all.join("; ").slice(0, 120)}`));
    else tip();
  };
  canvas.onmouseleave = () => tip();
}

const short = (block) => block.split(" / ").slice(1).join("/") || block;
