// How every node of the page is made: from a fixed list of attributes, and text as text. No HTML is ever parsed.

const SVG = "http://www.w3.org/2000/svg";
const ATTRIBUTES = new Set(
  `accept accept-charset alt aria-hidden autocapitalize autocomplete class clip-path cols colspan cx cy d dir download
  dx enterkeyhint fill for height hidden id inputmode lang list max maxlength min multiple name open pattern
  patternUnits placeholder points popover r rel role rows rx scope spellcheck start step stroke stroke-dasharray
  stroke-linecap stroke-linejoin stroke-width tabindex target text-anchor title transform type value viewBox width
  wrap x x1 x2 y y1 y2`.split(/\s+/),
);
const PROPERTIES = new Set(["checked", "disabled", "selected", "indeterminate", "readOnly", "required"]);

/**
 * Return an element. `on` holds listeners by event; children are nodes and text, and nothing where they are null or false.
 *
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an element of SVG, as `h` does. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else {
      set(node, name, value);
    }
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return node;
}

/** Set an attribute; null and false remove it. Throws for one that could load or run something. */
export function set(node, name, value) {
  if (PROPERTIES.has(name)) {
    node[name] = Boolean(value);
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else if (isAllowed(name, String(value))) {
    node.setAttribute(name, value === true ? "" : String(value));
  } else {
    throw new TypeError(`the attribute ${name} is not allowed`);
  }
}

function isAllowed(name, value) {
  if (name === "href") return value.startsWith("#");
  if (name === "src") return value.startsWith("blob:");
  return ATTRIBUTES.has(name) || /^(?:aria|data)-[a-z-]+$/.test(name);
}

/** Replace the children of *node*, if they are not those already. */
export function replace(node, ...children) {
  const wanted = children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== "");
  const same =
    wanted.length === node.childNodes.length &&
    wanted.every((child, index) =>
      typeof child === "object" ? node.childNodes[index] === child : isText(node.childNodes[index], String(child)),
    );
  if (!same) node.replaceChildren(...wanted);
  return node;
}

function isText(node, text) {
  return node.nodeType === Node.TEXT_NODE && node.data === text;
}

/** Set the text of *node*, if it differs: screen readers and selections are left alone otherwise. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
  return node;
}

/** Keep the elements of *parent* as *keys* say, in their order: made by *make*, brought up to date by *update*. */
export function reconcile(parent, keys, make, update) {
  const existing = new Map();
  for (const child of [...parent.children]) existing.set(child.dataset.key, child);
  let next = parent.firstElementChild;
  for (const key of keys) {
    const name = String(key);
    let node = existing.get(name);
    if (!node) {
      node = make(key);
      node.dataset.key = name;
    }
    existing.delete(name);
    update?.(node, key);
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
  }
  for (const node of existing.values()) node.remove();
}
