// Segments with what they leave out and add: sorted, filtered, underlined.
import { button, make, rested } from "./dom.js";
import { counted, grouped, visible } from "./writing.js";
/** @import {Part, Place} from "./types.js" */

const PLACES_AT_ONCE = 100; // that are drawn, so that a page of many findings stays quick
const KINDS = /** @type {const} */ (["omission", "addition", "damage"]);

/** @typedef {{place: Place, position: number, kinds: Set<string>, probability: number, text: string}} Row */

export class FindingList {
  /** @param {((place: Place) => void) | null} [explain] steps through a segment, where that is possible */
  constructor(explain = null) {
    this.explain = explain;
    this.rows = /** @type {Row[]} */ ([]);
    this.shown = this.rows;
    this.drawn = 0;
    this.suspicious = make("input", { type: "checkbox", checked: "" });
    this.kind = make("select");
    this.file = make("select");
    this.text = make("input", { type: "search", autocomplete: "off", placeholder: "in either text, or the unit's name" });
    this.least = make("input", { type: "number", min: "0", max: "1", step: "0.05", value: "0" });
    this.order = make("select", {}, make("option", { value: "probability", text: "likeliest first" }), make("option", { value: "place", text: "by place" }));
    this.form = make("form", { className: "filter", "aria-label": "Choose findings" },
      make("label", {}, "Kind ", this.kind), make("label", {}, "File ", this.file),
      make("label", { className: "wide" }, "Text ", this.text), make("label", {}, "Probability from ", this.least),
      make("label", {}, "Order ", this.order), make("label", { className: "check" }, this.suspicious, " Only suspicious"));
    this.form.addEventListener("input", rested(() => this.#choose(), 120)); // not at every letter
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.count = make("p", { className: "soft small", role: "status" });
    this.list = make("ol", { className: "findings" });
    this.more = button({ className: "quiet", text: "Show more" }, () => this.#drawMore());
    this.element = make("div", {}, this.form, this.count, this.list, this.more);
  }

  /** @param {Place[]} places */
  show(places) {
    this.rows = places.map(rowOf);
    offer(this.kind, KINDS.flatMap((kind) => this.rows.filter((row) => row.kinds.has(kind)).map(() => kind)));
    offer(this.file, this.rows.map((row) => row.place.file));
    this.form.hidden = this.count.hidden = places.length < 2;
    const clean = this.rows.some((row) => !row.kinds.size);
    this.#hide(this.suspicious, !clean);
    this.#hide(this.file, new Set(places.map((place) => place.file)).size < 2);
    this.#choose();
  }

  /** @param {HTMLElement} control @param {boolean} hidden */
  #hide(control, hidden) {
    if (control.parentElement) control.parentElement.hidden = hidden;
  }

  #choose() {
    const kind = this.kind.value, file = this.file.value, text = this.text.value.trim().toLowerCase();
    const least = Number(this.least.value) || 0;
    this.shown = this.rows.filter((row) => (row.kinds.size > 0 || !this.suspicious.checked) && (!kind || row.kinds.has(kind)) &&
      (!file || row.place.file === file) && row.probability >= least && row.text.includes(text));
    if (this.order.value === "probability") {
      this.shown.sort((a, b) => b.probability - a.probability || a.position - b.position);
    }
    this.drawn = 0;
    this.list.replaceChildren();
    this.#draw();
  }

  #draw() {
    const rows = this.shown.slice(this.drawn, this.drawn + PLACES_AT_ONCE);
    this.list.append(...rows.map((row) => this.#item(row)));
    this.drawn += rows.length;
    this.more.hidden = this.drawn === this.shown.length;
    this.count.textContent = `${grouped(this.drawn)} shown of ${grouped(this.shown.length)} chosen, ${grouped(this.rows.length)} in all`;
  }

  #drawMore() {
    const next = this.drawn;
    this.#draw();
    const first = this.list.children[next]; // the keyboard goes on where the new ones begin
    if (!(first instanceof HTMLElement)) return;
    first.tabIndex = -1;
    first.focus();
  }

  /** @param {Row} row */
  #item({ place, kinds }) {
    const head = make("h3", {}, ...labelsOf(place), make("bdi", { className: "where", text: whereIs(place) }));
    const className = KINDS.find((kind) => kinds.has(kind)) ?? "clean";
    if (place.damage !== undefined) return make("li", { className }, head, make("p", { text: visible(place.damage) }));
    const item = make("li", { className }, head, make("dl", {},
      make("dt", { text: "source" }), make("dd", { dir: "auto" }, ...marked(place, place.source ?? [])),
      make("dt", { text: "target" }), make("dd", { dir: "auto" }, ...marked(place, place.target ?? []))));
    if (this.explain) item.append(button({ className: "quiet small", text: "Step through" }, () => this.explain?.(place)));
    return item;
  }
}

/** Says what was found in a place. @param {Place} place */
function labelsOf({ damage, findings = [] }) {
  if (damage !== undefined) return [make("span", { className: "kind damage", text: "damaged" })];
  if (!findings.length) return [make("span", { className: "kind clean", text: "✓ nothing found" })];
  return findings.map(({ kind, probability }) => make("span", { className: `kind ${kind}`, text: `${kind} ${probability.toFixed(2)}` }));
}

/** @param {Place} place */
function whereIs({ file, line, name }) {
  return file ? `${visible(file)}:${line}${name ? ` (${visible(name)})` : ""}` : "";
}

/** @param {Place} place @param {number} position @returns {Row} */
function rowOf(place, position) {
  const marks = place.findings ?? [];
  const kinds = new Set(place.damage === undefined ? marks.map((mark) => String(mark.kind)) : ["damage"]);
  const probability = place.damage === undefined ? Math.max(0, ...marks.map((mark) => mark.probability)) : 1;
  const text = [place.damage ?? "", whole(place.source), whole(place.target), place.name ?? ""].join("\n").toLowerCase();
  return { place, position, kinds, probability, text };
}

/** The text of parts. @param {Part[] | undefined} parts */
export const whole = (parts) => (parts ?? []).map(([text]) => text).join("");

/** @param {Place} place @param {Part[]} parts */
function marked(place, parts) {
  return parts.map(([text, number]) => {
    const mark = number === null ? undefined : place.findings?.[number];
    if (!mark) return visible(text, "\n\t");
    const probability = mark.probability.toFixed(2);
    return make("mark", { className: mark.kind, title: `${mark.kind}, probability ${probability}` },
      make("bdi", { text: visible(text, "\n\t") }), make("sub", { text: ` ${probability}` }));
  });
}

/** Offers each name once, with how often it occurs. @param {HTMLSelectElement} select @param {string[]} names */
function offer(select, names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  select.replaceChildren(make("option", { value: "", text: "all" }),
    ...[...counts].map(([name, count]) => make("option", { value: name, text: `${visible(name)} (${grouped(count)})` })));
}

/** Says in a line what a check has done. @param {number} segments @param {Record<string, number>} unchecked @param {number} findings */
export function checkSummary(segments, unchecked, findings) {
  const reasons = Object.entries(unchecked).map(([reason, count]) => `${reason} ${grouped(count)}`);
  return `${counted(segments, "segment")} checked${reasons.length ? `; not checked: ${reasons.join(", ")}` : ""}; ${counted(findings, "finding")}`;
}
