// The words of the source: how each one stands before a step.
import { make, unseen } from "./dom.js";
import { fillBar, shareBar } from "./share_bar.js";
import { largest, likely, SAID, SIGNS } from "./shares.js";
import { percent, visible, written } from "./writing.js";
/** @import {Side, Triple} from "./types.js" */

const NEWS = {
  told: () => ["» ", unseen("just told, after ")],
  fallen: () => ["↩ ", unseen("untold again, after ")],
};

/**
 * @typedef {object} Standing what the source words show
 * @property {Triple[]} row
 * @property {Set<number>} told just now
 * @property {Set<number>} fallen back to untold just now
 * @property {string} cause the target word that was said before
 * @property {string} language of the target
 * @property {number[] | null | undefined} untold probabilities, on the last step alone
 */

export class SourceWords {
  /** @param {(place: number | null) => void} hover hears which word the pointer is on */
  constructor(hover) {
    this.list = make("ol", { className: "words source" });
    this.hover = hover;
  }

  /** @param {Side} side @param {number[] | null} [untold] what the last step will say */
  build(side, untold) {
    const { lang, dir } = written(side);
    this.list.dir = dir;
    this.list.lang = lang ?? "";
    this.list.replaceChildren(...side.words.map((word, place) => {
      const item = this.#item(visible(word), place);
      item.classList.toggle("suspect", likely(untold, place)); // has room for its probability from the start
      return item;
    }));
  }

  /** @param {string} word @param {number} place */
  #item(word, place) {
    const chip = make("div", { className: "chip" },
      make("bdi", { className: "word steady", text: word, "data-text": word }),
      make("span", { className: "sign", lang: "en" }), shareBar());
    const item = make("li", {}, chip, make("span", { className: "why" }));
    item.addEventListener("pointerenter", () => this.hover(place));
    item.addEventListener("pointerleave", () => this.hover(null));
    return item;
  }

  /** The element of a word that lines lead to. @param {number} place */
  anchor(place) {
    return this.list.children[place]?.firstElementChild ?? null;
  }

  /** @param {Set<number>} places */
  light(places) {
    [...this.list.children].forEach((item, place) => item.classList.toggle("linked", places.has(place)));
  }

  /** @param {Standing} standing */
  show(standing) {
    [...this.list.children].forEach((item, place) => {
      const shares = standing.row[place];
      const [chip, why] = item.children;
      if (shares && chip instanceof HTMLElement && why) this.#showWord(chip, why, place, shares, standing);
    });
  }

  /**
   * @param {HTMLElement} chip
   * @param {Element} why
   * @param {number} place
   * @param {Triple} shares
   * @param {Standing} standing
   */
  #showWord(chip, why, place, shares, { told, fallen, cause, language, untold }) {
    const name = largest(shares);
    const news = told.has(place) ? "told" : fallen.has(place) ? "fallen" : null;
    const judged = likely(untold, place) ? Number(untold?.[place]).toFixed(2) : "";
    chip.className = ["chip", name, news, judged && "lacking"].filter(Boolean).join(" ");
    chip.title = judged && `untold, probability ${judged}`;
    chip.querySelector(".sign")?.replaceChildren(`${SIGNS[name]} ${percent(Math.max(...shares))}`, unseen(` percent ${SAID[name]}`));
    fillBar(/** @type {Element} */ (chip.querySelector(".bar")), shares);
    why.replaceChildren(...(judged ? judgement(judged) : news ? [...NEWS[news](), make("bdi", { text: visible(cause), lang: language })] : []));
  }
}

/** @param {string} probability */
const judgement = (probability) => [make("span", { className: "judged", lang: "en", dir: "ltr", text: `untold ${probability}` })];
