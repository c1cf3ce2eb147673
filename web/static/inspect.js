// How an answer came about, in its own words and numbers, and what a reader thinks of it.

import { el, announce } from "./dom.js";
import { request } from "./api.js";

// record adds to details, when they are opened first, what the server has kept of the answer.
export function record(details, load, opensSource) {
  details.addEventListener("toggle", async () => {
    const place = el("div", { className: "record" }, el("p", { className: "hint", textContent: "Loading…" }));
    details.append(place);
    try {
      place.replaceChildren(...parts(await load(), opensSource));
    } catch (err) {
      place.replaceChildren(el("p", { className: "error", textContent: err.message }));
    }
  }, { once: true });
}

function parts(r, opensSource) {
  const removed = r.statements.filter((s) => s.removed || !s.supported);
  const nodes = [];
  if (r.dropped.length) {
    nodes.push(el("h3", { textContent: "Found and not read" }), el("ul", {}, ...r.dropped.map((d) => el("li", {},
      opensSource(d, [d.title || d.path, d.page ? `page ${d.page}` : ""].filter(Boolean).join(", ")), el("span", { className: "hint", textContent: d.why })))));
  }
  if (removed.length) {
    nodes.push(el("h3", { textContent: "Not supported" }), el("ul", {}, ...removed.map((s) => el("li", {}, el("q", { textContent: s.text }),
      el("span", { className: "hint", textContent: [s.why, s.removed ? "left out" : ""].filter(Boolean).join("; ") })))));
  }
  if (r.tokens.length) {
    nodes.push(el("h3", { textContent: "How sure the model was of each word" }), el("p", { className: "tokens" }, ...r.tokens.map(token)),
      el("p", { className: "hint", textContent: "The fainter the background, the surer. A pointer on a word shows what else could have stood there." }));
  }
  return nodes.length ? nodes : [el("p", { className: "hint", textContent: "The model was not asked." })];
}

const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(logprob < -3 ? 1 : 0)} %`;

function token(t) {
  const doubt = Math.min(4, Math.floor(-t.logprob / 0.5));
  const others = t.top.filter((o) => o.text !== t.text).slice(0, 4).map((o) => `${JSON.stringify(o.text)} ${percent(o.logprob)}`);
  return el("span", { className: `token doubt${doubt}`, textContent: t.text, title: [percent(t.logprob), ...others].join(" · ") });
}

// judge asks whether an answer is good. What is said becomes a question of an evaluation set.
export function judge(id) {
  const place = el("div", { className: "judge", role: "group", "aria-label": "Is this answer good?" });
  const say = async (good, expected) => {
    try {
      await request(`v1/answers/${encodeURIComponent(id)}/feedback`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ good, expected }) });
      place.replaceChildren(el("p", { className: "hint", textContent: "Thank you. It is kept on this server as a question to measure answers by." }));
      announce("Feedback was sent");
    } catch (err) {
      place.append(el("p", { className: "error", role: "alert", textContent: err.message }));
    }
  };
  const bad = () => {
    const text = el("input", { type: "text", maxLength: 1000, id: `expected-${id}`, autocomplete: "off" });
    const form = el("form", { className: "row" }, el("label", { htmlFor: text.id, textContent: "What is right?" }), text, el("button", { type: "submit", textContent: "Send" }));
    form.addEventListener("submit", (e) => { e.preventDefault(); say(false, text.value.trim()); });
    place.replaceChildren(form);
    text.focus();
  };
  place.append(el("button", { type: "button", className: "quiet", textContent: "Good answer", onclick: () => say(true, "") }),
    el("button", { type: "button", className: "quiet", textContent: "Not good", onclick: bad }));
  return place;
}
