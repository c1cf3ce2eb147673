// Talking to the server: the same HTTP API as everybody else uses.

import { $, choose } from "./dom.js";

const stored = "ragd-key";
let asking = null; // the open dialog for the key: requests that are refused meanwhile wait for it, too

// Lost is what request and events throw when it is the connection that failed: the same request may succeed later.
export class Lost extends Error {}

function enterKey(links) {
  $("sign-in").hidden = !/rel="?login"?/.test(links ?? "");
  asking ??= (async () => {
    $("key-input").value = "";
    const yes = await choose($("key"));
    if (yes) sessionStorage.setItem(stored, $("key-input").value.trim());
    return yes;
  })().finally(() => { asking = null; });
  return asking;
}

// Not a submit button: Enter in the field would press the first one of the form.
$("key-cancel").addEventListener("click", () => $("key").close("no"));

// request calls the API and turns an error response into an Error with the server's message.
export async function request(path, options = {}) {
  const key = sessionStorage.getItem(stored);
  const headers = new Headers(options.headers);
  if (key) headers.set("Authorization", "Bearer " + key);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new Lost("The server cannot be reached. Is ragd still running?");
  }
  if (response.ok) return response;
  if (response.status === 401 && await enterKey(response.headers.get("Link"))) return request(path, options);
  let message = `${response.status} ${response.statusText}`;
  try { message = (await response.json()).error.message; } catch { /* not ragd's: keep the status line */ }
  throw response.status === 502 || response.status === 503 ? new Lost(message) : new Error(message);
}

export const getJSON = async (path, options) => (await request(path, options)).json();

// upload sends a form and tells how much of it has gone: fetch cannot. Refusals are Errors, as those of request.
export function upload(path, form, progress) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open("POST", path);
    const key = sessionStorage.getItem(stored);
    if (key) xhr.setRequestHeader("Authorization", "Bearer " + key);
    xhr.upload.addEventListener("progress", (e) => { if (e.lengthComputable) progress(e.loaded / e.total); });
    xhr.addEventListener("error", () => reject(new Error("The server cannot be reached. Is ragd still running?")));
    xhr.addEventListener("load", async () => {
      let body = {};
      try { body = JSON.parse(xhr.responseText); } catch { /* not ragd's: keep the status line */ }
      if (xhr.status < 300) resolve(body);
      else if (xhr.status === 401 && await enterKey(xhr.getResponseHeader("Link"))) upload(path, form, progress).then(resolve, reject);
      else reject(new Error(body.error?.message ?? `${xhr.status} ${xhr.statusText}`));
    });
    xhr.send(form);
  });
}

// signOut ends the session here, then where the account is kept.
export async function signOut() {
  const { url } = await getJSON("login/out", { method: "POST" });
  location.assign(url || "./");
}

// events yields the {event, data, id} records of a server-sent event stream.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read().catch((err) => {
      throw err.name === "AbortError" ? err : new Lost("The connection was lost before the answer was complete.");
    });
    if (done) return;
    buffer += value;
    for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
      const record = { event: "message", data: "", id: "" };
      for (const line of buffer.slice(0, end).split("\n")) {
        if (line.startsWith("id:")) record.id = line.slice(3).trim();
        else if (line.startsWith("event:")) record.event = line.slice(6).trim();
        else if (line.startsWith("data:")) record.data += line.slice(5).trimStart();
      }
      if (record.data) yield { ...record, data: JSON.parse(record.data) };
    }
  }
}
