// What the clients share: where the station is, and one line for each thing that was shown.
import assert from "node:assert/strict";

export const url = process.env.INSPAN_URL;
export const token = process.env.INSPAN_TOKEN;
export const reader = process.env.INSPAN_READER;
export { assert };

export function shows(what) {
  console.log("ok " + what);
}

// withToken is fetch with a token.
export const withToken = (secret) => (input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", "Bearer " + secret);
  return fetch(input, { ...init, headers });
};

// api asks the HTTP API of the gateway.
export async function api(method, path, body) {
  const res = await withToken(token)(url + path, {
    method, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body),
  });
  return res.json();
}

// until asks until something is so.
export async function until(what, look) {
  for (let i = 0; i < 600; i++) {
    const found = await look();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error("it did not come: " + what);
}
