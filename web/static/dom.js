// Small helpers around the DOM.

export const $ = (id) => document.getElementById(id);

// el makes an element; properties whose names are attributes (aria-*, role) are set as such. Children are nodes or text, never markup.
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "role" || name.startsWith("aria-")) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

// announce tells a screen reader what happened without moving the focus.
export function announce(text) { $("announce").textContent = text; }

// choose opens a dialog and resolves to whether its "yes" button was chosen. The browser gives the focus back when it closes.
export function choose(dialog) {
  dialog.returnValue = "no"; // what Escape leaves
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}
