// Makes and finds elements. Text only ever enters through textContent and attributes:
// nothing that a sentence says can become markup.

const SVG = "http://www.w3.org/2000/svg"; // the name of a language; nothing is loaded from there

/** @typedef {{text?: string, className?: string} & Record<string, string | undefined>} Settings */

/**
 * Makes an element with attributes, a text or children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Settings} [settings]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, settings = {}, ...children) {
  const node = document.createElement(tag);
  fit(node, settings, children);
  return node;
}

/**
 * Makes an element of a drawing.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Settings} [settings]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function draw(tag, settings = {}, ...children) {
  const node = /** @type {SVGElementTagNameMap[Tag]} */ (document.createElementNS(SVG, tag));
  fit(node, settings, children);
  return node;
}

/**
 * @param {Element} node
 * @param {Settings} settings
 * @param {(Node | string)[]} children
 */
function fit(node, { text, className, ...attributes }, children) {
  if (text !== undefined) node.textContent = text;
  if (className) node.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
}

/**
 * Makes a button that does something.
 * @param {Settings} settings
 * @param {() => void} action
 * @param {...(Node | string)} children
 */
export function button(settings, action, ...children) {
  const node = make("button", { type: "button", ...settings }, ...children);
  node.addEventListener("click", action);
  return node;
}

/** Makes a text that only screen readers say. @param {string} text */
export const unseen = (text) => make("span", { className: "hidden", text, lang: "en" });

/**
 * Finds the element with this id, which the page must have.
 * @template {HTMLElement} [Kind=HTMLElement]
 * @param {string} id
 * @returns {Kind}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return /** @type {Kind} */ (found);
}

/** Chooses an option, if there is one of this value. @param {HTMLSelectElement} select @param {string} value */
export function choose(select, value) {
  if ([...select.options].some((option) => option.value === value)) select.value = value;
}

/**
 * Calls a function once input has rested for a while.
 * @param {() => void} action
 * @param {number} milliseconds
 */
export function rested(action, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(action, milliseconds);
  };
}

/** Tells whether an element takes what is typed. @param {EventTarget | null} node */
export const takesText = (node) => node instanceof HTMLElement && node.matches("input, textarea, select");
