// Documents: the list with its states, uploading and deleting; and the corpora, which the form for questions offers, too.

import { $, el, announce, choose } from "./dom.js";
import { getJSON, request, upload as send } from "./api.js";

const pageSize = 200;
let polling = 0;
let pages = 1; // how many are shown

const stateNames = { received: "waiting", parsed: "reading", split: "indexing", embedded: "indexing", live: "ready", failed: "failed" };

const warningNames = {
  garbled: "Some characters have no trustworthy meaning.",
  nul_removed: "NUL bytes were removed.",
  encoding: "Some bytes are invalid in the file's encoding.",
  empty_pages: "Some pages have no text.",
  truncated: "A limit left content out.",
  attachments: "Attached or embedded files were not read.",
  ocr: "Some text was read from pictures; there may be mistakes.",
};

function row(d) {
  const remove = el("button", { type: "button", className: "quiet", textContent: "Delete", "aria-label": `Delete ${d.path}` });
  remove.addEventListener("click", () => removeDocument(d));
  const state = el("td", {}, el("span", { className: `state ${d.state}`, textContent: stateNames[d.state] ?? d.state }));
  if (d.error) state.append(el("p", { className: "error", textContent: d.error }));
  if (d.state === "failed" && d.live) state.append(el("p", { className: "hint", textContent: "An earlier version still answers." }));
  for (const warning of d.warnings) state.append(el("p", { className: "hint", textContent: warningNames[warning] ?? warning }));
  if (d.personal_data?.length) state.append(el("p", { className: "hint", textContent: `Personal data: ${d.personal_data.join(", ")}` }));
  const name = el("th", { scope: "row" }, el("span", { textContent: d.title || d.path }));
  if (d.title && d.title !== d.path) name.append(el("span", { className: "hint path", textContent: d.path }));
  return el("tr", {}, name, el("td", { textContent: d.corpus, title: d.corpus }), state, el("td", { className: "number", textContent: d.passages }), el("td", {}, remove));
}

async function removeDocument(d) {
  $("confirm-text").textContent = `Delete ${d.path}? Its passages will not be found any more, and answers will not cite it.`;
  if (!await choose($("confirm"))) return;
  try {
    await request(`v1/documents/${d.id}`, { method: "DELETE" });
    announce(`${d.path} was deleted`);
  } catch (err) {
    report(`${d.path}: ${err.message}`, "failed");
  }
  await refresh();
  $("documents-title").focus();
}

async function loadDocuments(stale) {
  const all = [];
  let more = true;
  for (let page = 0; page < pages && more; page++) {
    const after = all.length ? all.at(-1).id : 0;
    const list = await getJSON(`v1/documents?limit=${pageSize}&after=${after}`);
    all.push(...list.documents);
    more = list.has_more;
  }
  if (stale()) return;
  $("documents").replaceChildren(...all.map(row));
  $("documents-table").hidden = all.length === 0;
  $("no-documents").hidden = all.length > 0;
  $("more").hidden = !more;
  // Documents are read and indexed behind the upload: look again until all are done.
  clearTimeout(polling);
  if (all.some((d) => d.state !== "live" && d.state !== "failed")) polling = setTimeout(refresh, 1000);
}

// corpusRow shows a corpus, with what can be done to it.
function corpusRow(c) {
  const parts = [`${c.documents} document${c.documents === 1 ? "" : "s"}`, c.waiting ? `${c.waiting} being read` : "", c.failed ? `${c.failed} failed` : ""];
  const remove = el("button", { type: "button", className: "quiet", textContent: "Delete", "aria-label": `Delete corpus ${c.name}` });
  remove.addEventListener("click", async () => {
    $("confirm-text").textContent = `Delete the corpus ${c.name} with all its documents?`;
    if (!await choose($("confirm"))) return;
    try {
      await request(`v1/corpora/${encodeURIComponent(c.name)}`, { method: "DELETE" });
      announce(`Corpus ${c.name} was deleted`);
    } catch (err) {
      report(`${c.name}: ${err.message}`, "failed");
    }
    await refresh();
    $("documents-title").focus();
  });
  return el("li", {}, el("span", { className: "name", textContent: c.name }), el("span", { className: "hint", textContent: parts.filter(Boolean).join(", ") }), remove);
}

async function loadCorpora(stale) {
  const { corpora } = await getJSON("v1/corpora");
  if (stale()) return;
  const chosen = $("corpus").value;
  $("corpus").replaceChildren(el("option", { value: "", textContent: "All corpora" }),
    ...corpora.map((c) => el("option", { value: c.name, textContent: c.name })));
  $("corpus").value = corpora.some((c) => c.name === chosen) ? chosen : "";
  $("corpus").hidden = corpora.length < 2;
  $("corpora").replaceChildren(...corpora.map(corpusRow));
  $("corpora").hidden = corpora.length === 0;
  $("corpus-names").replaceChildren(...corpora.map((c) => el("option", { value: c.name })));
  const sum = (field) => corpora.reduce((n, c) => n + c[field], 0);
  const documents = sum("documents"), waiting = sum("waiting");
  $("status").textContent = [`${documents} document${documents === 1 ? "" : "s"}`, waiting ? `${waiting} being read` : ""].filter(Boolean).join(", ");
  $("welcome-empty").hidden = documents + waiting > 0;
}

let newest = 0;

// refresh loads what is shown anew, and says whether that worked. Of several that run at once the one that began last draws: an answer from before a
// deletion that arrives after it must not bring the document back.
export async function refresh() {
  const mine = ++newest, stale = () => mine !== newest;
  try {
    await loadCorpora(stale);
    if (!$("view-documents").hidden) await loadDocuments(stale);
    return true;
  } catch (err) {
    $("status").textContent = err.message;
    return false;
  }
}

function report(text, className = "") {
  const line = el("li", { textContent: text, className });
  $("uploads").prepend(line);
  return line;
}

async function upload(files) {
  for (const file of files) {
    const line = report(`${file.name}: uploading…`);
    try {
      const form = new FormData();
      form.append("corpus", $("upload-corpus").value);
      form.append("file", file);
      const meter = el("progress", { max: 1, value: 0, "aria-label": `Upload of ${file.name}` });
      line.append(" ", meter);
      const d = await send("v1/documents", form, (share) => { meter.value = share; });
      line.textContent = `${file.name}: ${d.state === "live" ? "unchanged, it is here already" : "received"}`;
    } catch (err) {
      line.textContent = `${file.name}: ${err.message}`;
      line.className = "failed";
    }
  }
  refresh();
}

$("upload").addEventListener("submit", async (e) => {
  e.preventDefault();
  const files = [...$("file").files];
  if (files.length === 0) { $("file").focus(); report("Choose one or more files first.", "failed"); return; }
  $("file").value = "";
  await upload(files);
});
for (const type of ["dragenter", "dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(type, (e) => {
    e.preventDefault();
    $("drop").classList.toggle("over", type === "dragenter" || type === "dragover");
    if (type === "drop" && $("upload").reportValidity()) upload(e.dataTransfer.files);
  });
}
$("more").addEventListener("click", () => { pages++; refresh(); });
