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

let pending = () => {}; // says no to the question that is still open

// choose opens a dialog and resolves to whether its "yes" button was chosen. The browser gives the focus back when it closes.
export function choose(dialog) {
  pending(false); // closed, and asked again before the event of its closing came
  dialog.returnValue = "no"; // what Escape leaves
  dialog.showModal();
  return new Promise((resolve) => {
    const answer = (yes) => {
      dialog.removeEventListener("close", closed);
      pending = () => {};
      resolve(yes);
    };
    const closed = () => { if (!dialog.open) answer(dialog.returnValue === "yes"); };
    pending = answer;
    dialog.addEventListener("close", closed);
  });
}
