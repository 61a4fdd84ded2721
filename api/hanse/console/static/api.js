// Questions to the server, and orders.

export class Refused extends Error {
  constructor(status, error) {
    super(error.message || `the server answered ${status}`);
    this.status = status;
    this.reason = error.reason || "";
  }
}

let onUnknown = () => {};

/** Called when the server asks who we are. */
export const whenUnknown = (call) => { onUnknown = call; };

async function answer(response) {
  let value = {};
  try { value = await response.json(); } catch { /* no JSON: the status says it */ }
  if (response.ok) return value;
  const refused = new Refused(response.status, value.error || {});
  if (response.status === 401) onUnknown();
  throw refused;
}

export async function get(path, query = {}, signal = undefined) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const text = asked.toString();
  return answer(await fetch(`/api/${path}${text ? `?${text}` : ""}`, { signal, credentials: "same-origin" }));
}

export async function post(path, body = {}) {
  const headers = { "Content-Type": "application/json", "X-Hanse-Console": "1" };
  return answer(await fetch(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" }));
}

/** An order with an id of its own: sent twice, it is carried out once. */
export const order = (path, body = {}) => post(path, { request_id: `console-${crypto.randomUUID()}`, ...body });

export const at = (text) => encodeURIComponent(text);
