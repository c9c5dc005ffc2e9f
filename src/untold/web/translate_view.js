// Translates while you type, shows how the words turn, and goes on from what you write.
import { writeAddress } from "./address.js";
import { ask, watch } from "./api.js";
import { AlternativeList } from "./alternatives.js";
import { button, byId, choose, rested } from "./dom.js";
import { HistoryList } from "./history_list.js";
import { copyButton, saveFile, savePage } from "./saving.js";
import { CATEGORIES } from "./shares.js";
import { Stepper } from "./stepper.js";
import { summarize } from "./summary.js";
import { Trouble } from "./trouble.js";
import { coveredWords, grouped, visible } from "./writing.js";
/** @import {Catalogue, ExplainDocument, Sentence, TokenEvent, Translation} from "./types.js" */
/** @import {StreamEvent} from "./api.js" */

const REST = 400; // milliseconds without a letter before a text is translated
const SEEN_ONLY = "This model does not separate past and future: it shows its translation alone.";

export class TranslateView {
  /**
   * @param {Catalogue} catalogue
   * @param {() => string} model the name of the chosen one
   * @param {(name: string) => void} useModel chooses another one
   */
  constructor(catalogue, model, useModel) {
    this.catalogue = catalogue;
    this.model = model;
    this.prefix = "";
    this.revisions = 0;
    this.sentence = /** @type {Sentence | null} */ (null);
    this.running = new AbortController();
    this.text = /** @type {HTMLTextAreaElement} */ (byId("text"));
    this.translation = /** @type {HTMLTextAreaElement} */ (byId("translation"));
    this.beam = /** @type {HTMLInputElement} */ (byId("beam"));
    this.other = /** @type {HTMLSelectElement} */ (byId("other"));
    this.trouble = new Trouble();
    this.stepper = new Stepper((step) => this.#address(step));
    this.beside = new Stepper();
    this.alternatives = new AlternativeList((text) => void this.trouble.guard(() => this.#explain(text)));
    this.history = new HistoryList((entry) => {
      useModel(entry.model);
      this.begin({ text: entry.text });
    });
    this.#compose();
    this.#listen();
  }

  #compose() {
    byId("trouble").append(this.trouble.element);
    byId("stage").append(this.stepper.element, this.beside.element);
    byId("extras").append(this.alternatives.element, this.history.element);
    byId("translation-tools").prepend(copyButton("Copy", () => this.translation.value), copyButton("Copy link", () => location.href));
    this.#clearStage();
    this.offerExamples();
  }

  #listen() {
    const typed = rested(() => void this.run(""), REST);
    this.text.addEventListener("input", () => { this.running.abort(); typed(); });
    const edited = rested(() => void this.run(this.prefix), REST);
    this.translation.addEventListener("input", () => {
      this.running.abort();
      this.prefix = this.translation.value.slice(0, this.translation.selectionStart);
      edited();
    });
    byId("release").addEventListener("click", () => void this.run(""));
    byId("clear").addEventListener("click", () => { this.begin({ text: "" }); this.text.focus(); });
    for (const control of [this.beam, this.other, this.alternatives.number]) {
      control.addEventListener("change", () => void this.run(this.prefix));
    }
    byId("save-page").addEventListener("click", () => void this.trouble.guard(() =>
      savePage("untold.html", "explain_page.html", this.#document(), this.sentence?.source.text)));
    byId("save-record").addEventListener("click", () => saveFile("untold.json", JSON.stringify(this.#document(), null, 1), "application/json"));
  }

  #document() {
    const beside = this.beside.element.hidden ? null : this.beside.sentence;
    const sentence = this.sentence && { ...this.sentence, system: beside ? this.model() : "", against: beside };
    return { layout: 1, categories: [...CATEGORIES], sentences: [sentence] };
  }

  offerExamples() {
    const { examples = [] } = this.catalogue.models.find((each) => each.name === this.model()) ?? {};
    byId("examples").replaceChildren(...examples.map((text) =>
      button({ className: "example", text: visible(text), title: visible(text), dir: "auto" }, () => this.begin({ text }))));
  }

  /** Translates a text with the settings that stand there. @param {{text: string, prefix?: string, step?: string}} wanted */
  begin({ text, prefix = "", step }) {
    this.text.value = text;
    this.wantedStep = step === undefined ? undefined : Number(step) - 1;
    void this.run(prefix);
  }

  /** Sets what an address says of the search. @param {Record<string, string>} address */
  set({ beam = "", nbest = "", other = "" }) {
    this.beam.value = beam;
    choose(this.alternatives.number, nbest);
    choose(this.other, other);
  }

  /** Translates what stands there; the translation begins with `prefix`. @param {string} prefix */
  async run(prefix) {
    this.prefix = prefix;
    this.running.abort();
    this.running = new AbortController();
    const { signal } = this.running;
    const text = this.text.value;
    byId("release").hidden = !prefix;
    if (!text.trim()) return this.#clear();
    const most = this.catalogue.limits.characters;
    if (text.length > most && [...text].length > most) {
      this.#clear();
      return this.trouble.say(`The text has ${grouped([...text].length)} characters, and at most ${grouped(most)} are translated at once: shorten it.`, null);
    }
    await this.trouble.guard(async () => {
      this.#say("Translating…");
      try {
        for await (const event of watch("v1/stream", { ...this.#body(), text, prefix }, signal)) {
          if (signal.aborted) return;
          this.#follow(/** @type {StreamEvent} */ (event), text);
        }
        await this.#compare(text, prefix, signal);
        await this.alternatives.find({ ...this.#body(), texts: [text], prefixes: [prefix] }, signal);
      } catch (error) {
        if (!signal.aborted) this.#say("");
        throw error;
      }
    });
  }

  #body() {
    return { model: this.model(), beam: Number(this.beam.value) || undefined };
  }

  #clear() {
    this.trouble.clear();
    this.translation.value = "";
    this.alternatives.clear();
    this.#say("");
    this.#clearStage();
    writeAddress({ model: this.model() });
  }

  #clearStage() {
    this.sentence = null;
    this.stepper.sentence = this.beside.sentence = null;
    this.stepper.element.hidden = this.beside.element.hidden = true;
    byId("stage").classList.remove("two");
    byId("result-tools").hidden = true;
  }

  /** @param {string} text */
  #say(text) {
    byId("status").textContent = text;
  }

  /** @param {StreamEvent} event @param {string} text */
  #follow(event, text) {
    if (event.event === "start") {
      this.revisions = 0;
      this.alternatives.clear();
      this.beside.element.hidden = true;
      byId("stage").classList.remove("two");
      this.stepper.element.hidden = false;
      this.stepper.begin(event.data.source);
    } else if (event.event === "token") this.#grow(event.data);
    else if (event.event === "end") this.#finish(event.data.translation, text);
  }

  /** @param {TokenEvent} token */
  #grow(token) {
    this.#write(token.text);
    this.revisions += Number(token.revised);
    this.stepper.follow(token, this.#language(), coveredWords(token.words, this.prefix));
  }

  #language() {
    return this.catalogue.models.find((each) => each.name === this.model())?.target_language ?? "";
  }

  /** Writes the translation; a cursor stays behind what the reader gave. @param {string} text */
  #write(text) {
    this.translation.value = text;
    const place = Math.min(this.prefix.length, text.length);
    if (document.activeElement === this.translation) this.translation.setSelectionRange(place, place);
  }

  /** @param {Translation} translation @param {string} text */
  #finish(translation, text) {
    this.#write(translation.text);
    this.sentence = translation.trace;
    byId("result-tools").hidden = !translation.trace;
    this.#say(translation.trace ? summarize(translation.trace, this.prefix, this.revisions) : SEEN_ONLY);
    if (translation.trace) this.#open(translation.trace);
    else this.stepper.element.hidden = true;
    this.#address(this.stepper.step);
    if (!this.prefix && !this.running.signal.aborted) this.history.add({ text, translation: translation.text, model: this.model() });
  }

  /** Opens at the end or, after words that the reader gave, where the model went on. @param {Sentence} sentence */
  #open(sentence) {
    const { words } = sentence.target;
    const given = coveredWords(words, this.prefix);
    this.stepper.element.hidden = false;
    this.stepper.open(sentence, this.wantedStep ?? (this.prefix.trim() ? given : words.length), given);
    this.wantedStep = undefined;
  }

  /** Shows what another model makes of the text. @param {string} text @param {string} prefix @param {AbortSignal} signal */
  async #compare(text, prefix, signal) {
    if (!this.other.value || !this.sentence) return;
    const body = { ...this.#body(), model: this.other.value, texts: [text], prefixes: [prefix], trace: true };
    const answer = /** @type {{translations: Translation[]}} */ (await ask("v1/translate", body, signal));
    const found = answer.translations[0]?.trace;
    if (!found) return this.#say(`${this.other.value} does not separate past and future: ${answer.translations[0]?.text ?? ""}`);
    byId("stage").classList.add("two");
    this.beside.element.hidden = false;
    this.stepper.open({ ...this.sentence, system: this.model() }, this.stepper.step, coveredWords(this.sentence.target.words, prefix));
    return this.beside.open({ ...found, system: this.other.value }, found.target.words.length, coveredWords(found.target.words, prefix));
  }

  /** Steps through another translation of the same text. @param {string} target */
  async #explain(target) {
    const pairs = [{ source: this.text.value, target }];
    const { sentences } = /** @type {ExplainDocument} */ (await ask("v1/explain", { model: this.model(), pairs }, this.running.signal));
    if (!sentences[0]) return;
    this.sentence = sentences[0];
    this.#write(target);
    this.#open(sentences[0]);
  }

  /** @param {number} step */
  #address(step) {
    const end = !this.sentence || (step === this.sentence.target.words.length && !this.prefix.trim());
    writeAddress({
      text: this.text.value, model: this.model(), prefix: this.prefix, step: end ? "" : step + 1,
      beam: this.beam.value, nbest: this.alternatives.number.value, other: this.other.value,
    });
  }
}
