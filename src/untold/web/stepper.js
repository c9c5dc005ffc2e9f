// Steps through one translation: source, lines, translation, steps and the map of all steps.
import { make, takesText } from "./dom.js";
import { LinkLines } from "./link_lines.js";
import { Player } from "./player.js";
import { ShareKey } from "./share_bar.js";
import { allLinks, inWords, means, turns, withoutRedundant } from "./shares.js";
import { SourceWords } from "./source_words.js";
import { StepMap } from "./step_map.js";
import { TargetWords } from "./target_words.js";
import { counted, direction, visible } from "./writing.js";
/** @import {Sentence, Side, TokenEvent, Triple} from "./types.js" */

const CROWD = 24; // so many words have room at full size
const LINKS = [["word", "of one word"], ["all", "all"], ["none", "none"]];
const steppers = /** @type {Stepper[]} */ ([]); // the one that was used last comes first

export class Stepper {
  /** @param {(step: number) => void} [stepped] hears every step */
  constructor(stepped = () => {}) {
    this.stepped = stepped;
    this.step = 0;
    this.redundant = true;
    this.sentence = /** @type {Sentence | null} */ (null);
    this.row = /** @type {Triple[] | undefined} */ (undefined);
    this.pointed = /** @type {{place: number, side: "source" | "target"} | null} */ (null);
    this.source = new SourceWords((place) => this.#point(place, "source"));
    this.target = new TargetWords((step) => this.player.byHand(step), (place) => this.#point(place, "target"));
    this.key = new ShareKey();
    this.player = new Player((step) => this.go(step));
    this.map = new StepMap((step) => this.player.byHand(step));
    this.live = make("p", { className: "hidden", "aria-live": "polite" });
    this.note = make("p", { className: "soft small" });
    this.heading = make("h2", { className: "system", dir: "auto" });
    this.links = make("select", {}, ...LINKS.map(([value, text]) => make("option", { value, text })));
    this.links.addEventListener("input", () => this.#drawLines());
    this.stage = make("div", { className: "stage" },
      make("h3", { text: "Source, before the framed word is said" }), this.source.list,
      make("h3", { className: "hidden", text: "Translation: the framed word comes next" }), this.target.list);
    this.lines = new LinkLines(this.stage);
    this.element = make("section", { className: "stepper" }, this.heading,
      make("div", { className: "card" }, this.stage, this.key.element, this.#choices()),
      this.player.element, this.live, this.map.element);
    this.element.addEventListener("pointerdown", () => this.#comeFirst());
    this.element.addEventListener("focusin", () => this.#comeFirst());
    steppers.push(this);
  }

  #comeFirst() {
    steppers.sort((one, other) => Number(other === this) - Number(one === this));
  }

  #choices() {
    const neither = make("input", { type: "checkbox", checked: "" });
    neither.addEventListener("input", () => this.#toggle(neither.checked));
    return make("div", { className: "choices" },
      make("label", {}, "Links ", this.links), make("label", {}, neither, " Redundant"), this.note);
  }

  /** @param {Sentence} sentence @param {number} step @param {number} [forced] words that the reader gave */
  open(sentence, step, forced = 0) {
    this.player.pause();
    this.sentence = sentence;
    this.element.classList.remove("streaming");
    this.#title(sentence.system ?? "");
    this.source.build(sentence.source, sentence.untold);
    this.#crowd(sentence.source);
    this.target.build(sentence, forced);
    this.player.element.dir = direction(sentence.target.text);
    this.#toggle(this.redundant);
    this.note.textContent = gold(sentence);
    this.go(step);
  }

  /** Names the system; where there is one alone, only screen readers need a heading. @param {string} system */
  #title(system) {
    this.heading.textContent = visible(system) || "Step by step";
    this.heading.classList.toggle("hidden", !system);
  }

  /** Draws long sentences smaller. @param {Side} source */
  #crowd(source) {
    this.element.classList.toggle("dense", source.words.length > CROWD);
  }

  /** @param {boolean} redundant whether the third share is shown */
  #toggle(redundant) {
    this.redundant = redundant;
    this.element.classList.toggle("without-redundant", !redundant);
    if (!this.sentence) return;
    this.map.build(this.sentence, this.sentence.shares.map((row) => this.#shown(row)));
    if (this.element.isConnected) this.go(this.step);
  }

  /** @param {Triple[]} row */
  #shown(row) {
    return this.redundant ? row : row.map(withoutRedundant);
  }

  get last() {
    return this.sentence ? this.sentence.target.words.length : 0;
  }

  /** @param {number} step */
  go(step) {
    const sentence = this.sentence;
    if (!sentence) return;
    this.step = Math.max(0, Math.min(this.last, step));
    const row = this.#shown(sentence.shares[this.step] ?? []);
    const before = sentence.shares[this.step - 1];
    this.target.show(this.step);
    this.source.show({
      row, ...turns(before && this.#shown(before), row), cause: sentence.target.words[this.step - 1] ?? "",
      language: sentence.target.language, untold: this.step === this.last ? sentence.untold : null,
    });
    this.key.show(means(row), this.redundant);
    this.map.show(this.step);
    const news = inWords(sentence, this.step, row);
    this.live.textContent = `${news.place}. ${news.words}`;
    this.player.show(this.step, this.last, news.place);
    this.#drawLines();
    this.stepped(this.step);
  }

  /** Shows a source that is about to be translated. @param {Side} source */
  begin(source) {
    this.player.pause();
    this.sentence = null;
    this.row = undefined;
    this.element.classList.add("streaming");
    this.#title("");
    this.live.textContent = this.note.textContent = "";
    this.source.build(source);
    this.#crowd(source);
    this.source.light(new Set());
    this.target.list.replaceChildren();
    this.lines.show([]);
    const row = source.words.map(() => /** @type {Triple} */ ([0, 1, 0]));
    this.#standing(row, "");
  }

  /** Shows the best translation so far. @param {TokenEvent} token @param {string} language @param {number} [forced] */
  follow(token, language, forced = 0) {
    const { text, words } = token;
    const target = { text, words, language, given: false };
    const source = { text: "", words: [], language: "" };
    this.target.build({ source, target, shares: [], flips: [], copies: [], score: 0, log_probability: 0 }, forced);
    this.target.show(words.length);
    if (token.revised) this.target.markChanged(token.kept);
    if (token.shares) this.#standing(token.shares, words.at(-2) ?? words.at(-1) ?? "", language);
  }

  /** @param {Triple[]} row @param {string} cause @param {string} [language] */
  #standing(row, cause, language = "") {
    const shown = this.#shown(row);
    this.source.show({ row: shown, ...turns(this.row, shown), cause, language, untold: null });
    this.key.show(means(shown), this.redundant);
    this.row = shown;
  }

  /** @param {number | null} place @param {"source" | "target"} side */
  #point(place, side) {
    this.pointed = place === null ? null : { place, side };
    this.#drawLines();
  }

  #drawLines() {
    if (!this.sentence) return;
    const { place, side } = this.pointed ?? { place: this.step, side: /** @type {const} */ ("target") };
    const mode = this.links.value;
    const drawn = mode === "none" ? [] : allLinks(this.sentence)
      .map((link) => ({ ...link, strong: link[side] === place }))
      .filter((link) => link.strong || mode === "all");
    const strong = drawn.filter((link) => link.strong);
    this.source.light(new Set(strong.map((link) => link.source)));
    this.target.light(new Set(strong.map((link) => link.target)));
    this.lines.show(drawn.map((link) => ({ ...link, from: this.source.anchor(link.source), to: this.target.anchor(link.target) })));
  }

  get isShown() {
    return this.sentence !== null && this.element.isConnected && !this.element.closest("[hidden]");
  }

  /** Steps by keys. @param {KeyboardEvent} event */
  onKey(event) {
    if (!this.sentence) return;
    const forth = direction(this.sentence.target.text) === "rtl" ? -1 : 1;
    const steps = new Map([["ArrowRight", this.step + forth], ["ArrowLeft", this.step - forth], ["Home", 0], ["End", this.last]]);
    const step = steps.get(event.key);
    if (step === undefined) return;
    event.preventDefault();
    this.player.byHand(step);
  }
}

/** Says how far the model's links are those of people. @param {Sentence} sentence */
function gold(sentence) {
  if (!sentence.gold_links) return "";
  const count = (/** @type {string} */ kind) => allLinks(sentence).filter((link) => link.kind === kind).length;
  return `${counted(count("agreed"), "link")} by model and people (full lines), ${count("extra")} by the model alone (dashed), ` +
    `${count("missed")} by people alone (dotted).`;
}

/** Lets arrow keys, Home and End step through what was used last. */
export function stepByKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || takesText(event.target)) return;
    if (!document.querySelector("dialog[open]")) steppers.find((each) => each.isShown)?.onKey(event);
  });
}
