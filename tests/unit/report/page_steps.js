// Opens a page of `untold explain` at each step, and prints what its script shows there as JSON.
// The Element below has just those parts of a browser's that the script uses.
"use strict";
const page = require("fs").readFileSync(process.argv[2], "utf8");
const data = page.match(/id="data">(.*?)<\/script>/s)[1];
const script = page.match(/<script>\n(.*)<\/script>/s)[1];

class Element {
  constructor(tag) {
    Object.assign(this, { tag, nodes: [], attributes: {}, classes: new Set(), style: { setProperty() {} } });
    this.classList = {
      add: (name) => this.classes.add(name),
      toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)),
    };
  }
  get className() { return [...this.classes].join(" "); }
  set className(names) { this.classes = new Set(names.split(" ")); }
  get textContent() { return this.nodes.map((node) => node.textContent ?? node).join(""); }
  set textContent(text) { this.nodes = [text]; }
  get title() { return this.attributes.title ?? ""; }
  set title(text) { this.attributes.title = text; }
  get children() { return this.nodes.filter((node) => node instanceof Element); }
  get firstChild() { return this.nodes[0]; }
  get descendants() { return this.children.flatMap((child) => [child, ...child.descendants]); }
  get rows() { return this.descendants.filter((each) => each.tag === "tr"); }
  get cells() { return this.children; }
  append(...nodes) { this.nodes.push(...nodes); }
  replaceChildren(...nodes) { this.nodes = nodes; }
  setAttribute(name, value) { this.attributes[name] = value; }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener() {}
  getBoundingClientRect() { return { left: 0, right: 0, width: 0 }; }
  querySelectorAll(wanted) { return wanted === ".bar i" ? this.descendants.filter((each) => each.tag === "i") : []; }
  querySelector(wanted) {
    return this.descendants.find((each) => each.tag === wanted || each.classes.has(wanted.slice(1)));
  }
}

function shown(step) {
  const known = {};
  const byId = (id) => (known[id] ??= new Element(id));
  byId("data").textContent = data;
  byId("play").append(new Element("path"));
  const document = { createElement: (tag) => new Element(tag), getElementById: byId, addEventListener() {} };
  new Function("document", "window", "location", "history", "setInterval", "clearInterval", script)(
    document, { addEventListener() {} }, { hash: `#1.${step}` }, { replaceState() {} }, () => 1, () => {});
  const [source, target] = [byId("source").children, byId("target").children];
  return {
    titles: [...source.map((item) => item.children[0].title), ...target.map((item) => item.title)],
    lacking: source.map((item) => item.children[0].classes.has("lacking")),
    notes: source.map((item) => item.children[1].textContent),
    atEnd: byId("target").classes.has("at-end"),
    live: byId("live").textContent,
    calibration: byId("calibration").textContent,
  };
}

const steps = JSON.parse(data).sentences[0].shares.map((_, step) => shown(step + 1));
console.log(JSON.stringify(steps));
