// Where a gang is: the racks that it has, in their blocks, and which ranks are in each.

import { drawCell, sharp } from "./cells.js";
import { fill, h, tip } from "./dom.js";
import { n, plural } from "./fmt.js";
import { palette } from "./theme.js";

const LABEL = 92;
const ROWS = 40;
const LISTED = 200;

export function placement(element, found) {
  const racks = found.racks.map(([pool, path, set, hosts, pods, ranks]) => ({ pool, path, set, hosts, pods, ranks, block: [pool, ...path.slice(0, -1)].join(" / "), name: path.at(-1) || "" }));
  if (!racks.length) {
    fill(element, h("p", { class: "empty" }, found.silent.length ? `The agent of ${found.silent.join(", ")} does not answer; what runs there runs on.` : "Its agent has not said where it is yet."));
    return;
  }
  const canvas = h("canvas", { class: "cells", role: "img", "aria-label": `${plural(racks.length, "rack")} in use` });
  const several = new Set(racks.map((rack) => rack.set)).size > 1;
  const list = h("div", { class: "ranks", tabindex: "0", role: "group", "aria-label": "Racks and ranks" }, racks.slice(0, LISTED).map((rack) =>
    h("div", {}, h("span", { class: "cut" }, rack.path.join(" / ") || rack.pool), h("span", { class: "mute" }, plural(rack.hosts, "host")), h("span", { class: "num" }, `${several ? `${rack.set} ` : ""}${rack.ranks.replaceAll("-", "–")}`))),
    racks.length > LISTED ? h("p", { class: "mute" }, `and ${plural(racks.length - LISTED + found.left_out, "rack")} more`) : null);
  const hosts = h("details", { class: "more" }, h("summary", {}, plural(found.nodes.length + found.nodes_left_out, "host"), " by name"));
  hosts.addEventListener("toggle", () => hosts.childElementCount < 2 && hosts.append(h("div", { class: "ranks" },
    found.nodes.map(([name, set, ranks, path]) => h("div", {}, h("span", { class: "cut" }, name), h("span", { class: "cut mute" }, path.join(" / ")), h("span", { class: "num" }, `${several ? `${set} ` : ""}${ranks}`))),
    found.nodes_left_out ? h("p", { class: "mute" }, `and ${plural(found.nodes_left_out, "host")} more: hanse job NAME --nodes`) : null)), { once: true });
  fill(element, canvas, h("h2", { class: "apart" }, "Ranks by rack"), list, hosts,
    found.silent.length ? h("p", { class: "mute" }, `${found.silent.join(", ")} did not answer.`) : null);
  draw(canvas, racks, element.clientWidth);
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
