/** Elements of the picture: made once, and changed where the next picture differs. Text is only ever set as text. */

import { s, set } from "../dom.js";

/** Of each element that was drawn: its children by key, and its attributes. */
const drawn = new WeakMap();

/**
 * Make the children of *parent* those of *nodes*.
 * @param {Element} parent
 * @param {import("./scene.js").Node[]} nodes each with a key that is unique among them
 */
export function patch(parent, nodes) {
  const before = stateOfElement(parent).children;
  const after = new Map();
  for (const node of nodes) {
    const key = node.key ?? node.tag;
    const old = before.get(key);
    after.set(key, old?.localName === node.tag ? old : s(node.tag));
  }
  for (const [key, child] of before) if (after.get(key) !== child) child.remove();
  let next = parent.firstElementChild;
  for (const node of nodes) {
    const child = after.get(node.key ?? node.tag);
    if (child === next) next = child.nextElementSibling;
    else parent.insertBefore(child, next);
    update(child, node);
  }
  stateOfElement(parent).children = after;
}

function update(child, node) {
  const state = stateOfElement(child);
  const attrs = node.attrs ?? {};
  for (const [name, value] of Object.entries(attrs)) {
    if (state.attrs[name] !== value) set(child, name, value);
  }
  for (const name of Object.keys(state.attrs)) if (!(name in attrs)) set(child, name, null);
  state.attrs = attrs;
  if (node.children !== undefined) patch(child, node.children);
  else if (state.text !== (node.text ?? "")) {
    state.text = node.text ?? "";
    child.textContent = state.text;
  }
}

function stateOfElement(child) {
  let state = drawn.get(child);
  if (state === undefined) drawn.set(child, (state = { children: new Map(), attrs: {}, text: "" }));
  return state;
}
