// The panel that shows a source: a passage between what stands around it, with the cited words marked.

import { $, el, announce } from "./dom.js";
import { getJSON, request } from "./api.js";

let opener = null; // the button that opened the panel, which gets the focus back
let shown = 0; // counts openings, so that a late response does not overwrite a newer one

export const place = (t) => [t.title || t.path, t.page ? `page ${t.page}` : ""].filter(Boolean).join(", ");

// showSource opens the panel. target is a citation, whose words are marked, or a source, which is shown whole.
export async function showSource(target, button) {
  if (opener !== button) opener?.setAttribute("aria-expanded", "false");
  opener = button;
  const mine = ++shown;
  button.setAttribute("aria-expanded", "true");
  $("source-title").textContent = (target.marker ? `${target.marker} · ` : "") + (target.title || target.path);
  $("source-meta").textContent = meta(target);
  $("source-text").replaceChildren(el("p", { className: "hint", textContent: "Loading…" }));
  hidePage();
  $("source").hidden = false;
  document.body.classList.add("with-source");
  $("source").focus({ preventScroll: true });
  try {
    const passage = await getJSON(`v1/passages/${target.passage_id}`);
    if (mine !== shown) return;
    draw(passage, target);
    if (passage.page && passage.current && /\.pdf$/i.test(passage.path)) showPage(passage, target, mine);
  } catch (err) {
    if (mine === shown) $("source-text").replaceChildren(el("p", { className: "error", textContent: err.message }));
  }
}

const meta = (p) => [p.corpus, p.path, p.page ? `page ${p.page}` : "", p.heading === p.title ? "" : p.heading ?? ""].filter(Boolean).join(" · ");

// showPage draws the page of a PDF with the cited words marked. The server draws it: a browser never sees the file. It needs the key, so the picture is
// fetched and shown from memory.
async function showPage(p, target, mine) {
  const start = target.source_start ?? p.start, end = target.source_end ?? p.end;
  const width = Math.min(2000, Math.round(Math.max(320, $("source").clientWidth - 48) * Math.min(2, devicePixelRatio)));
  try {
    const [response, boxes] = await Promise.all([
      request(`v1/documents/${p.document_id}/pages/${p.page}?width=${width}&start=${start}&end=${end}`),
      getJSON(`v1/documents/${p.document_id}/boxes?start=${start}&end=${end}`)]);
    const picture = await response.blob();
    if (mine !== shown) return;
    hidePage();
    $("source-image").src = URL.createObjectURL(picture);
    $("source-image").alt = `Page ${p.page} of ${p.title || p.path}, the cited words marked. The text follows.`;
    $("source-page").hidden = false;
    await $("source-image").decode();
    if (mine !== shown) return;
    const on = boxes.pages.find((b) => b.page === p.page);
    const top = Math.min(...(on?.boxes ?? []).map((b) => b.y0)) / (on?.height ?? 1); // a share of the page
    if (isFinite(top)) $("source-page").scrollTop = top * $("source-image").clientHeight - $("source-page").clientHeight / 3;
    bringIntoView();
  } catch { /* no picture: the text is there */ }
}

function hidePage() {
  if ($("source-image").src) URL.revokeObjectURL($("source-image").src);
  $("source-image").removeAttribute("src");
  $("source-page").hidden = true;
}

// draw marks the bytes [source_start, source_end) of the document. Offsets count UTF-8 bytes, JavaScript's strings UTF-16 units: cut the bytes.
function draw(p, target) {
  $("source-meta").textContent = meta(p);
  const bytes = new TextEncoder().encode(p.text);
  const cut = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));
  const from = target.source_start - p.start, to = target.source_end - p.start;
  const cited = from >= 0 && from < to && to <= bytes.length; // false for a source, which has no such fields
  const text = cited ? [cut(0, from), el("mark", { textContent: cut(from, to) }), cut(to)] : [p.text];
  $("source-text").replaceChildren(
    p.current ? "" : el("p", { className: "hint", textContent: "From an earlier version of the document." }),
    el("span", { className: "around", textContent: p.before }),
    el("span", { className: "passage" }, ...text),
    el("span", { className: "around", textContent: p.after }));
  bringIntoView();
  if (cited) announce(`Cited text: ${cut(from, to)}`);
}

// bringIntoView scrolls the text to what is cited. A picture above it leaves it less room, so that it is called again then.
function bringIntoView() {
  const text = $("source-text"), middle = text.querySelector("mark") ?? text.querySelector(".passage");
  if (middle) text.scrollTop += middle.getBoundingClientRect().top - text.getBoundingClientRect().top - text.clientHeight / 3;
}

export function closeSource() {
  if ($("source").hidden) return;
  shown++;
  hidePage();
  $("source").hidden = true;
  document.body.classList.remove("with-source");
  opener?.setAttribute("aria-expanded", "false");
  if (opener?.isConnected) opener.focus();
  opener = null;
}

$("source-close").addEventListener("click", closeSource);
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && !document.querySelector("dialog[open]")) closeSource(); });
