// Asking: the conversation, the streamed answer with its citation chips, and how the answer came about.

import { $, el, announce } from "./dom.js";
import { request, getJSON, events, Lost } from "./api.js";
import { judge, record } from "./inspect.js";
import { showSource, closeSource, place } from "./source.js";

const history = []; // turns of this conversation: {question, answer}
const rememberedTurns = 20;
let running = null; // AbortController of the answer being written

$("ask").addEventListener("submit", (e) => {
  e.preventDefault();
  const question = $("question").value.trim();
  if (!question || running) return;
  $("question").value = "";
  ask(question);
});

async function ask(question) {
  const turn = newTurn(question);
  running = new AbortController();
  setBusy(true);
  try {
    const corpus = $("corpus").value;
    await follow(turn, running.signal, JSON.stringify({ question, corpora: corpus ? [corpus] : [], history: history.slice(-rememberedTurns), stream: true }));
  } catch (err) {
    if (err.name === "AbortError") turn.stopped();
    else if (!turn.over) turn.fail(err.message);
  } finally {
    running = null;
    setBusy(false);
  }
}

// retryDelays are the waits before each try to go on with a stream that broke off; an event that arrives makes all of them available again.
const retryDelays = [300, 900, 2700];

// follow sends a question and takes the events of its answer. When the connection is lost it goes on behind the last event that arrived.
async function follow(turn, signal, body) {
  let last = "", tries = 0;
  while (!turn.over) {
    try {
      const headers = { "Content-Type": "application/json", Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const response = await request("v1/ask", { method: "POST", signal, headers, body });
      for await (const { event, data, id } of events(response.body)) {
        if (id) { last = id; tries = 0; }
        turn.take(event, data);
      }
      if (!turn.over) throw new Lost("The connection was lost before the answer was complete.");
    } catch (err) {
      if (!(err instanceof Lost) || turn.over || tries === retryDelays.length) throw err;
      turn.waiting();
      await new Promise((resolve) => setTimeout(resolve, retryDelays[tries++]));
      signal.throwIfAborted();
    }
  }
}

$("question").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); $("ask").requestSubmit(); }
});
$("stop").addEventListener("click", () => { running?.abort(); $("question").focus(); });
$("clear").addEventListener("click", () => {
  history.length = 0;
  closeSource();
  $("conversation").replaceChildren();
  $("welcome").hidden = false;
  $("question").placeholder = "Ask a question";
  setBusy(false);
  $("question").focus();
});

function setBusy(busy) {
  $("send").hidden = busy;
  $("stop").hidden = !busy;
  $("clear").hidden = busy || !$("conversation").hasChildNodes();
}

// newTurn shows a question and returns what takes the events of its answer.
function newTurn(question) {
  const progress = el("p", { className: "progress", textContent: "Searching the documents" });
  const reply = el("p", { className: "reply" });
  const article = el("article", { "aria-label": "Question and answer" }, el("h2", { className: "asked", textContent: question }), progress, reply);
  $("welcome").hidden = true;
  $("conversation").append(article);
  article.scrollIntoView({ block: "start" });
  announce("Searching the documents");
  let text = "", citations = [], sources = [];

  const target = (marker, nth) => citations.filter((c) => c.marker === marker)[nth] ?? citations.find((c) => c.marker === marker) ?? sources.find((s) => s.marker === marker);
  const draw = (complete) => drawReply(reply, complete ? text : text.replace(/\s*(\[\d{0,3})?$/, ""), target);
  const end = (...nodes) => {
    turn.over = true;
    progress.remove();
    reply.classList.remove("writing");
    draw(true);
    article.append(...nodes);
  };
  const again = () => el("button", { type: "button", textContent: "Ask again", onclick: () => { if (!running) { article.remove(); ask(question); } } });
  const turn = {
    over: false,
    take(event, data) {
      if (event === "sources") {
        sources = data.sources;
        progress.textContent = `Reading ${count(sources.length, "passage")}`;
      } else if (event === "text") {
        text += data.text;
        if (text.trim()) { progress.hidden = true; reply.classList.add("writing"); }
        draw(false);
      } else if (event === "citation") {
        citations.push(data);
        draw(false);
      } else if (event === "replaced") { // what was shown does not hold; the citations of the new text come with the whole answer
        text = data.text;
        citations = [];
        draw(true);
      } else if (event === "restart") { // documents changed while the connection was lost: all events come again
        text = "";
        [citations, sources] = [[], []];
        draw(false);
      } else if (event === "error") {
        this.fail(data.message);
      } else if (event === "done") {
        ({ text, citations, sources } = data);
        this.finish(data);
      }
    },
    finish(a) {
      article.classList.toggle("abstained", a.abstained);
      end(a.abstained ? el("p", { className: "hint", textContent: `Why: ${a.reason}.` }) : cited(a.citations),
        a.unsupported.length ? el("p", { className: "hint", textContent: "No passage supports the part that is underlined with dots." }) : "",
        a.doubtful.length ? el("p", { className: "hint", textContent: "Read the source of the part that is underlined with dashes: it may say something else." }) : "",
        a.query === a.question ? "" : el("p", { className: "hint", textContent: `Searched for: ${a.query}` }), a.id ? judge(a.id) : "", inspect(a));
      underline(reply, a);
      history.push({ question: a.question, answer: a.text });
      $("question").placeholder = "Ask a follow-up question";
      announce(`${a.abstained ? "No answer in the documents" : "Answer"}: ${a.text.replace(/\s?\[\d+\]/g, "")}`);
    },
    waiting() {
      progress.textContent = "The connection was lost; going on";
      progress.hidden = false;
      announce(progress.textContent);
    },
    fail(message) { end(el("p", { className: "error", role: "alert", textContent: message }), again()); },
    stopped() { end(el("p", { className: "hint", textContent: "Stopped." }), again()); announce("Stopped"); },
  };
  return turn;
}

// drawReply writes text with a chip in the place of each marker. It changes only what is new, so that a chip keeps the focus while text arrives.
function drawReply(reply, text, target) {
  const parts = text.split(/\s?\[(\d{1,3})\]/); // text, number, text, number, ..., text
  const seen = {};
  parts.forEach((part, i) => {
    let node = reply.childNodes[i];
    if (i % 2 === 0) {
      if (!node) reply.append(document.createTextNode(part));
      else if (node.data !== part) node.data = part;
      return;
    }
    const marker = Number(part), nth = seen[marker] = (seen[marker] ?? -1) + 1;
    if (node?.textContent !== part) {
      const fresh = el("button", { type: "button", className: "chip", textContent: part, "aria-expanded": "false" });
      node ? node.replaceWith(fresh) : reply.append(fresh);
      node = fresh;
    }
    const to = target(marker, nth);
    node.disabled = !to;
    node.title = to ? place(to) : "";
    node.setAttribute("aria-label", `Source ${marker}${to ? `: ${place(to)}` : ""}`);
    node.onclick = () => showSource(to, node);
  });
  while (reply.childNodes.length > parts.length) reply.lastChild.remove();
}

// underline marks what no passage supports, and what its sources may not say. The highlights leave the elements as they are; offsets count bytes.
const marks = { unsupported: new Highlight(), doubtful: new Highlight() };
for (const [name, mark] of Object.entries(marks)) CSS.highlights.set(name, mark);

function underline(reply, a) {
  const bytes = new TextEncoder().encode(a.text);
  for (const [name, mark] of Object.entries(marks)) {
    for (const { start, end } of a[name]) {
      const statement = new TextDecoder().decode(bytes.subarray(start, end));
      for (const node of reply.childNodes) { // markers stand behind a statement, so that it lies within one of them
        const at = node.nodeType === Node.TEXT_NODE ? node.data.indexOf(statement) : -1;
        if (at >= 0) mark.add(new StaticRange({ startContainer: node, startOffset: at, endContainer: node, endOffset: at + statement.length }));
      }
    }
  }
}

// cited lists the documents that the answer rests on, each once.
function cited(citations) {
  const first = [...new Map(citations.toReversed().map((c) => [c.marker, c])).values()].sort((a, b) => a.marker - b.marker);
  if (first.length === 0) return "";
  return el("ul", { className: "cited", "aria-label": "Sources of this answer" }, ...first.map((c) => el("li", {}, opensSource(c,
    el("span", { className: "number", textContent: c.marker }), el("span", { textContent: place(c) })))));
}

function opensSource(target, ...content) {
  const button = el("button", { type: "button", "aria-expanded": "false" }, ...content);
  button.addEventListener("click", () => showSource(target, button));
  return button;
}

const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

// inspect shows how the answer came about.
function inspect(a) {
  const b = a.budget, u = a.usage, t = a.timings;
  const parts = [["rules", b.system], ["passages", b.passages], ["history", b.history], ["question", b.question], ["answer", b.answer]];
  const bar = el("div", { className: "budget", role: "img", "aria-label": `Context window of ${b.context} tokens: ` + parts.map(([name, n]) => `${name} ${n}`).join(", ") },
    ...parts.map(([name, n]) => el("span", { className: name, title: `${name}: ${n} tokens`, style: `width:${100 * n / (b.context || 1)}%` })));
  const legend = el("p", { className: "legend", "aria-hidden": "true" }, ...parts.map(([name, n]) => el("span", { className: name, textContent: `${name} ${n}` })));
  const read = a.sources.filter((s) => !s.added); // the others were found when the answer stood there
  const list = el("ol", {}, ...a.sources.map((s) => el("li", { value: s.marker }, opensSource(s, place(s)),
    el("span", { className: "hint", textContent: [s.added ? "found afterwards" : "", s.rerank == null ? "" : `relevance ${s.rerank.toFixed(1)}`, s.dense == null ? "" : `similarity ${s.dense.toFixed(2)}`,
      s.lexical == null ? "" : `BM25 ${s.lexical.toFixed(1)}`].filter(Boolean).join(" · ") }))));
  const details = el("details", {},
    el("summary", { textContent: `${count(read.length, "passage")} read · ${a.sources.length ? `first word after ${seconds(t.first_token_ms)} · ` : ""}${seconds(t.total_ms)} in all` }),
    ...(a.sources.length ? [list, bar, legend, el("p", { textContent: `${u.prompt_tokens} prompt tokens, ${u.cached_tokens} of them from the cache; ${u.output_tokens} written.` })] : []),
    el("p", { textContent: `Embedding ${seconds(t.embed_ms)}, search ${seconds(Math.max(t.dense_ms, t.lexical_ms))}, second reading ${seconds(t.rerank_ms)}, waiting ${seconds(t.queue_ms)}, prompt ${seconds(t.prefill_ms)}, writing ${seconds(t.decode_ms)}.` }));
  if (a.id) record(details, () => getJSON(`v1/answers/${encodeURIComponent(a.id)}`), opensSource);
  return details;
}
