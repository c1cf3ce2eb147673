// The page's entry: the views and what they share. Everything that comes from a server response is set as text, never as markup.

import { $ } from "./dom.js";
import { closeSource } from "./source.js";
import { refresh } from "./documents.js";
import { getJSON, signOut } from "./api.js";
import "./ask.js";

function show(view) {
  for (const name of ["ask", "documents"]) {
    $("view-" + name).hidden = name !== view;
    if (name === view) $("tab-" + name).setAttribute("aria-current", "page");
    else $("tab-" + name).removeAttribute("aria-current");
  }
  closeSource();
  refresh();
}

for (const name of ["ask", "documents"]) $("tab-" + name).addEventListener("click", () => show(name));
$("welcome-add").addEventListener("click", () => { show("documents"); $("file").focus(); });

// Somebody who signed in sees as whom, and can leave. Who sends a key does not: there is nothing to leave.
async function showAccount() {
  const key = await getJSON("v1/key");
  $("account").hidden = !key.login;
  $("account-name").textContent = key.name.replace(/^login: /, "");
}
$("sign-out").addEventListener("click", () => signOut().catch((err) => { $("status").textContent = err.message; }));

refresh().then((loaded) => loaded && showAccount()).catch(() => { /* the page works without */ });
$("question").focus();
