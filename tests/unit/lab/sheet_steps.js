// Opens a page of `untold sheet` in node, fills it in as told, and prints what it shows and saves.
// Arguments: the page, and a file of JSON: [{"kept": text or null, "steps": [...]}, ...], a visit each.
// The Element below has just those parts of a browser's that the script uses.
"use strict";
const fs = require("fs");
const page = fs.readFileSync(process.argv[2], "utf8");
const data = page.match(/id="data">(.*?)<\/script>/s)[1];
const script = page.match(/<script>\n(.*)<\/script>/s)[1];

class Element {
  constructor(tag, document) {
    Object.assign(this, { tag, document, nodes: [], attributes: {}, handlers: {}, className: "", value: "", parent: null });
  }
  get textContent() { return this.nodes.map((node) => node.textContent ?? node).join(""); }
  set textContent(text) { this.nodes = [text]; }
  get type() { return this.attributes.type; }
  get children() { return this.nodes.filter((node) => node instanceof Element); }
  get descendants() { return this.children.flatMap((child) => [child, ...child.descendants]); }
  append(...nodes) {
    for (const node of nodes) if (node instanceof Element) node.parent = this;
    this.nodes.push(...nodes);
  }
  replaceChildren(...nodes) { this.nodes = []; this.append(...nodes); }
  setAttribute(name, value) { this.attributes[name] = value; }
  getAttribute(name) { return this.attributes[name] ?? null; }
  addEventListener(kind, handler) { this.handlers[kind] = handler; }
  focus() { this.document.activeElement = this; }
  closest(tag) { return this.tag === tag ? this : this.parent?.closest(tag) ?? null; }
  querySelector(wanted) {
    const grade = wanted.match(/value="(.)"/)[1];
    return this.descendants.find((each) => each.attributes.value === grade);
  }
  click() { this.handlers.click?.({}); }
}

function visit({ kept, steps }) {
  const known = {}, saved = [], links = [], warnings = [];
  const document = { handlers: {}, activeElement: null };
  document.createElement = (tag) => { const made = new Element(tag, document); if (tag === "a") links.push(made); return made; };
  document.getElementById = (id) => (known[id] ??= new Element(id, document));
  document.addEventListener = (kind, handler) => { document.handlers[kind] = handler; };
  const $ = document.getElementById;
  $("data").textContent = data;
  $("lost").hidden = true;
  let store = kept;
  const localStorage = {
    getItem: () => { if (store === false) throw new Error("forbidden"); return store; },
    setItem: (_, text) => { if (store === false) throw new Error("forbidden"); store = text; },
  };
  const URL = { createObjectURL: (blob) => { saved.push(blob.parts.join("")); return "blob:"; }, revokeObjectURL() {} };
  class Blob { constructor(parts) { this.parts = parts; } }
  new Function("document", "localStorage", "URL", "Blob", "confirm", "setTimeout", script)(
    document, localStorage, URL, Blob, (words) => { warnings.push(words); return true; }, () => {});
  const act = {
    press: (key, more = {}) => {
      let prevented = false;
      const event = { key, target: document.activeElement, preventDefault: () => { prevented = true; }, ...more };
      document.handlers.keydown(event);
      return prevented;
    },
    click: (id) => $(id).click(),
    write: (place, column, text) => {
      const input = $("translations").children[place].descendants.find((each) => each.attributes["data-column"] === column);
      input.focus();
      input.value = text;
      input.handlers.input();
    },
    name: (text) => { $("rater").value = text; $("rater").handlers.input(); },
  };
  const pressed = steps.map(([what, ...rest]) => act[what](...rest) ?? null);
  return {
    place: $("place").textContent, source: $("source").textContent, count: $("count").textContent,
    translations: $("translations").children.map((card) => card.children[1].textContent),
    rated: $("translations").children.map((card) => card.className === "rated"),
    lost: !$("lost").hidden, reference: !$("reference-part").hidden, store, saved, pressed, warnings,
    files: links.map((link) => link.attributes.download),
  };
}

const visits = JSON.parse(fs.readFileSync(process.argv[3], "utf8"));
console.log(JSON.stringify(visits.map(visit)));
