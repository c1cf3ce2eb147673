// The page's only script. It keeps the conversation, reads the answer stream and shows sources. Everything that comes from a server response is set as
// text, never as markup.

const $ = (id) => document.getElementById(id);
const el = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};

const history = []; // turns of this conversation: {question, answer}
let running = null; // AbortController of the answer being written

// request calls the API and turns an error response into an Error with the server's message.
async function request(path, options = {}) {
  const key = sessionStorage.getItem("ragd-key");
  const headers = new Headers(options.headers);
  if (key) headers.set("Authorization", "Bearer " + key);
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  let message = `${response.status} ${response.statusText}`;
  try { message = (await response.json()).error.message; } catch { /* not ours: keep the status line */ }
  if (response.status === 401) {
    const entered = prompt("This server needs an API key:");
    if (entered) { sessionStorage.setItem("ragd-key", entered.trim()); return request(path, options); }
  }
  throw new Error(message);
}

// events yields the {event, data} records of a server-sent event stream.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
      const record = { event: "message", data: "" };
      for (const line of buffer.slice(0, end).split("\n")) {
        if (line.startsWith("event:")) record.event = line.slice(6).trim();
        else if (line.startsWith("data:")) record.data += line.slice(5).trimStart();
      }
      if (record.data) yield { event: record.event, data: JSON.parse(record.data) };
    }
  }
}

// ---- asking ----

$("ask").addEventListener("submit", async (e) => {
  e.preventDefault();
  const question = $("question").value.trim();
  if (!question || running) return;
  $("question").value = "";
  const turn = newTurn(question);
  running = new AbortController();
  setBusy(true);
  try {
    const corpus = $("corpus").value;
    const response = await request("v1/ask", {
      method: "POST", signal: running.signal,
      headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
      body: JSON.stringify({ question, corpora: corpus ? [corpus] : undefined, history, stream: true }),
    });
    for await (const { event, data } of events(response.body)) turn.take(event, data);
  } catch (err) {
    turn.fail(err.name === "AbortError" ? "Stopped." : err.message);
  } finally {
    running = null;
    setBusy(false);
    turn.end();
    $("question").focus();
  }
});

$("question").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); $("ask").requestSubmit(); }
});
$("stop").addEventListener("click", () => running?.abort());
$("clear").addEventListener("click", () => {
  history.length = 0;
  $("conversation").replaceChildren();
  $("clear").hidden = true;
  closeSource();
  $("question").focus();
});

function setBusy(busy) {
  $("send").disabled = busy;
  $("stop").hidden = !busy;
  $("clear").hidden = busy || history.length === 0;
}

// newTurn shows a question and returns what takes the events of its answer.
function newTurn(question) {
  const reply = el("p", { className: "reply cursor", textContent: "" });
  const article = el("article", {}, el("p", { className: "asked", textContent: question }), reply);
  $("conversation").append(article);
  article.scrollIntoView({ block: "nearest" });
  let text = "", citations = [], sources = [];
  const draw = () => drawReply(reply, text, citations, sources);
  return {
    take(event, data) {
      if (event === "sources") sources = data.sources;
      else if (event === "text") text += data.text;
      else if (event === "citation") citations.push(data);
      else if (event === "error") return this.fail(data.message);
      else if (event === "done") {
        text = data.text; citations = data.citations; sources = data.sources;
        article.classList.toggle("abstained", data.abstained);
        if (data.abstained) article.append(el("p", { className: "hint", textContent: "Why: " + data.reason + "." }));
        if (data.query !== data.question) article.append(el("p", { className: "hint", textContent: "Searched for: " + data.query }));
        article.append(inspect(data));
        history.push({ question: data.question, answer: data.text });
      }
      draw();
    },
    fail(message) { article.append(el("p", { className: "error", role: "alert", textContent: message })); },
    end() { reply.classList.remove("cursor"); article.scrollIntoView({ block: "nearest" }); },
  };
}

// drawReply writes text with a chip for each marker. Citations come in the order of their markers.
function drawReply(reply, text, citations, sources) {
  const nodes = [];
  let from = 0, n = 0;
  for (const m of text.matchAll(/\s?\[(\d{1,3})\]/g)) {
    nodes.push(text.slice(from, m.index));
    from = m.index + m[0].length;
    const citation = citations[n++];
    const source = sources.find((s) => s.marker === Number(m[1]));
    nodes.push(chip(Number(m[1]), citation ?? source));
  }
  nodes.push(text.slice(from));
  reply.replaceChildren(...nodes);
}

function chip(marker, target) {
  const label = target ? `${target.title || target.path}${target.page ? ", page " + target.page : ""}` : "source";
  const button = el("button", { type: "button", className: "chip", textContent: marker, title: label, disabled: !target });
  button.setAttribute("aria-label", `Source ${marker}: ${label}`);
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => showSource(target, button));
  return button;
}

// inspect shows how the answer came about.
function inspect(a) {
  const b = a.budget, parts = [["rules", b.system], ["passages", b.passages], ["history", b.history], ["question", b.question], ["answer", b.answer]];
  const bar = el("div", { className: "budget" }, ...parts.map(([name, n]) => el("span", { title: `${name}: ${n} tokens`, style: `width:${100 * n / (b.context || 1)}%` })));
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", `Context window of ${b.context} tokens: ` + parts.map(([name, n]) => `${name} ${n}`).join(", "));
  const u = a.usage, t = a.timings;
  const list = el("ol", {}, ...a.sources.map((s) => {
    const button = el("button", { type: "button", textContent: `${s.title || s.path}${s.page ? ", page " + s.page : ""}` });
    button.addEventListener("click", () => showSource(s, button));
    const score = s.rerank == null ? "" : ` · relevance ${s.rerank.toFixed(1)}`;
    return el("li", {}, button, score);
  }));
  return el("details", {},
    el("summary", { textContent: `${a.sources.length} passages read · first word after ${seconds(t.first_token_ms)} · ${seconds(t.total_ms)} in all` }),
    b.context ? bar : "",
    el("p", { textContent: `${u.prompt_tokens} prompt tokens (${u.cached_tokens} from the cache), ${u.output_tokens} written.` }), list);
}

const seconds = (ms) => (ms / 1000).toFixed(1) + " s";

// ---- sources ----

let opener = null;

async function showSource(target, button) {
  closeSource();
  opener = button;
  button.setAttribute("aria-expanded", "true");
  $("source-title").textContent = target.title || target.path;
  $("source-meta").textContent = `${target.corpus} · ${target.path}${target.page ? " · page " + target.page : ""}`;
  $("source-text").textContent = "loading…";
  $("source").hidden = false;
  document.body.classList.add("with-source");
  try {
    const p = await (await request(`v1/passages/${target.passage_id}`)).json();
    drawSource(p, target.quote);
  } catch (err) {
    $("source-text").replaceChildren(el("span", { className: "error", textContent: err.message }));
  }
  $("source").focus({ preventScroll: true });
}

// drawSource shows the passage between what stands around it, with the quote marked.
function drawSource(p, quote) {
  const at = quote ? p.text.indexOf(quote) : -1;
  const marked = at < 0 ? [el("mark", { textContent: p.text })]
    : [p.text.slice(0, at), el("mark", { textContent: quote }), p.text.slice(at + quote.length)];
  $("source-text").replaceChildren(
    el("span", { className: "around", textContent: p.before }), ...marked, el("span", { className: "around", textContent: p.after }));
  $("source-text").querySelector("mark").scrollIntoView({ block: "center" });
}

function closeSource() {
  $("source").hidden = true;
  document.body.classList.remove("with-source");
  opener?.setAttribute("aria-expanded", "false");
  opener?.focus();
  opener = null;
}
$("source-close").addEventListener("click", closeSource);
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && !$("source").hidden) closeSource(); });

// ---- documents ----

let polling = 0;

async function loadDocuments() {
  const { documents } = await (await request("v1/documents")).json();
  $("documents").replaceChildren(...documents.map((d) => {
    const remove = el("button", { type: "button", textContent: "Delete" });
    remove.setAttribute("aria-label", `Delete ${d.path}`);
    remove.addEventListener("click", async () => {
      if (!confirm(`Delete ${d.path} with its passages?`)) return;
      await request(`v1/documents/${d.id}`, { method: "DELETE" });
      refresh();
    });
    const state = el("td", { textContent: d.error ? `${d.state}: ${d.error}` : d.state, className: d.state === "failed" ? "failed" : "" });
    return el("tr", {}, el("td", { textContent: d.title ? `${d.title} (${d.path})` : d.path }), el("td", { textContent: d.corpus }), state,
      el("td", { textContent: d.passages }), el("td", {}, remove));
  }));
  $("no-documents").hidden = documents.length > 0;
  // Documents are read and indexed behind the upload: look again until all are done.
  clearTimeout(polling);
  if (documents.some((d) => d.state !== "live" && d.state !== "failed")) polling = setTimeout(refresh, 1000);
}

async function loadCorpora() {
  const { corpora } = await (await request("v1/corpora")).json();
  const chosen = $("corpus").value;
  $("corpus").replaceChildren(el("option", { value: "", textContent: "all corpora" }),
    ...corpora.map((c) => el("option", { value: c.name, textContent: `${c.name} (${c.documents})` })));
  $("corpus").value = chosen;
  const n = corpora.reduce((sum, c) => sum + c.documents, 0);
  $("status").textContent = n ? `${n} documents, on this machine only` : "no documents yet";
}

async function refresh() {
  try { await loadCorpora(); await loadDocuments(); } catch (err) { $("status").textContent = err.message; }
}

$("upload").addEventListener("submit", async (e) => {
  e.preventDefault();
  for (const file of $("file").files) {
    const line = el("li", { textContent: `${file.name}: uploading…` });
    $("uploads").append(line);
    try {
      const form = new FormData();
      form.append("corpus", $("upload-corpus").value);
      form.append("file", file);
      const d = await (await request("v1/documents", { method: "POST", body: form })).json();
      line.textContent = `${file.name}: ${d.state === "live" ? "is here already, unchanged" : "received, being read"}`;
    } catch (err) {
      line.textContent = `${file.name}: ${err.message}`;
      line.className = "failed";
    }
  }
  $("file").value = "";
  refresh();
});

for (const name of ["ask", "documents"]) {
  $("tab-" + name).addEventListener("click", () => {
    for (const other of ["ask", "documents"]) {
      $("view-" + other).hidden = other !== name;
      $("tab-" + other).setAttribute("aria-pressed", String(other === name));
    }
    if (name === "documents") refresh();
  });
}

refresh();
$("question").focus();
