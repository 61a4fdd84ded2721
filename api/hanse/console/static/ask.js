// A question before something is changed; Escape is no.

import { h } from "./dom.js";

/** The text of the field ("" without one), or null for no. */
export function ask({ title, text, field = "", yes = "Yes", danger = false }) {
  return new Promise((done) => {
    const input = field ? h("input", { type: "text", maxlength: "200" }) : null;
    const confirm = h("button", { type: "submit", class: danger ? "danger" : "" }, yes);
    const form = h("form", { method: "dialog", class: "in" }, h("h2", {}, title), h("p", { class: "dim" }, text), input ? h("label", {}, field, input) : null,
      h("div", { class: "ends" }, h("button", { type: "button", class: "plain", onclick: () => box.close("no") }, "No"), confirm));
    form.addEventListener("submit", (e) => { e.preventDefault(); box.close("yes"); });
    const box = h("dialog", { "aria-label": title }, form);
    box.addEventListener("close", () => { done(box.returnValue === "yes" ? input?.value.trim() || "" : null); box.remove(); });
    document.body.append(box);
    box.showModal();
    (input || confirm).focus();
  });
}
