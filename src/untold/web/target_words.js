// The words of the translation: a button for each step, the one that comes next in a frame.
import { button, make, unseen } from "./dom.js";
import { copiedFrom, END, likely } from "./shares.js";
import { visible, written } from "./writing.js";
/** @import {Sentence} from "./types.js" */

export class TargetWords {
  /**
   * @param {(step: number) => void} choose
   * @param {(place: number | null) => void} hover
   */
  constructor(choose, hover) {
    this.list = make("ol", { className: "words target" });
    this.choose = choose;
    this.hover = hover;
  }

  /**
   * @param {Sentence} sentence
   * @param {number} [forced] so many words the reader has given
   */
  build(sentence, forced = 0) {
    const { target } = sentence;
    const { lang, dir } = written(target);
    this.list.dir = dir;
    this.list.lang = lang ?? "";
    this.sentence = sentence;
    const items = target.words.map((word, step) => this.#item(visible(word), step, this.#notes(step, step < forced)));
    const end = this.#item(END, target.words.length, []);
    end.className = "end";
    end.lang = "en";
    this.list.replaceChildren(...items, end);
  }

  /** @param {string} word @param {number} step @param {Node[]} notes */
  #item(word, step, notes) {
    const chosen = button({ tabindex: "-1" }, () => this.choose(step),
      make("bdi", { className: "steady", text: word, "data-text": word }));
    const item = make("li", likely(this.sentence?.added, step) ? { className: "added" } : {}, chosen, ...notes);
    item.addEventListener("pointerenter", () => this.hover(step));
    item.addEventListener("pointerleave", () => this.hover(null));
    return item;
  }

  /** @param {number} step @param {boolean} forced */
  #notes(step, forced) {
    const sentence = /** @type {Sentence} */ (this.sentence);
    const from = copiedFrom(sentence, step);
    const notes = [];
    if (forced) {
      notes.push(make("span", { className: "note" }, make("span", { text: "✎", "aria-hidden": "true" }), unseen("given by you")));
    }
    if (from !== undefined) {
      notes.push(make("span", { className: "note" }, make("span", { text: "❐ ", "aria-hidden": "true" }),
        unseen("copied from "), make("bdi", { text: visible(from), lang: sentence.source.language })));
    }
    if (likely(sentence.added, step)) {
      notes.push(make("span", { className: "judged", lang: "en", dir: "ltr", text: `added ${sentence.added?.[step]?.toFixed(2)}` }));
    }
    return notes;
  }

  /** The element of a word that lines lead to. @param {number} place */
  anchor(place) {
    return this.list.children[place]?.firstElementChild ?? null;
  }

  /** @param {Set<number>} places */
  light(places) {
    [...this.list.children].forEach((item, place) => item.classList.toggle("linked", places.has(place)));
  }

  /** Marks the words that another hypothesis has in place of others. @param {number} first */
  markChanged(first) {
    [...this.list.children].forEach((item, place) => item.classList.toggle("changed", place >= first));
  }

  /** @param {number} step */
  show(step) {
    const items = [...this.list.children];
    const atEnd = step === items.length - 1;
    const focused = this.list.contains(document.activeElement);
    const added = this.sentence?.added;
    this.list.classList.toggle("at-end", atEnd);
    items.forEach((item, place) => {
      const chosen = item.firstElementChild;
      if (!(item instanceof HTMLElement) || !(chosen instanceof HTMLElement)) return;
      item.title = atEnd && likely(added, place) ? `added, probability ${added?.[place]?.toFixed(2)}` : "";
      placeWord(chosen, place - step);
      if (focused && place === step) chosen.focus({ preventScroll: true });
    });
  }
}

/** Shows a word as said before, next or later. @param {HTMLElement} chosen @param {number} distance from the step */
function placeWord(chosen, distance) {
  chosen.classList.toggle("next", distance === 0);
  chosen.classList.toggle("later", distance > 0);
  chosen.tabIndex = distance === 0 ? 0 : -1;
  if (distance === 0) chosen.setAttribute("aria-current", "step");
  else chosen.removeAttribute("aria-current");
}
