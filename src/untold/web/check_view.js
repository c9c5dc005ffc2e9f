// Checks an existing translation, or a file of them, for what it leaves out and adds.
import { writeAddress } from "./address.js";
import { ask } from "./api.js";
import { placesOf } from "./check_places.js";
import { byId } from "./dom.js";
import { checkSummary, FindingList, whole } from "./finding_list.js";
import { copyButton, inBase64, saveFile, savePage } from "./saving.js";
import { Stepper } from "./stepper.js";
import { Trouble } from "./trouble.js";
import { counted, grouped } from "./writing.js";
/** @import {CheckAnswer, ExplainDocument, Limits, Place} from "./types.js" */

export class CheckView {
  /** @param {() => string} model the name of the chosen one @param {Limits} limits */
  constructor(model, limits) {
    this.model = model;
    this.limits = limits;
    this.trouble = new Trouble();
    this.stepper = new Stepper();
    this.answer = /** @type {CheckAnswer | null} */ (null);
    this.source = /** @type {HTMLTextAreaElement} */ (byId("check-source"));
    this.target = /** @type {HTMLTextAreaElement} */ (byId("check-target"));
    this.threshold = /** @type {HTMLInputElement} */ (byId("threshold"));
    this.file = /** @type {HTMLInputElement} */ (byId("file"));
    this.list = new FindingList((place) => void this.trouble.guard(() => this.#explain(place)));
    this.stepper.element.hidden = true;
    byId("check-trouble").append(this.trouble.element);
    byId("check-results").append(this.list.element);
    byId("check-stepper").append(this.stepper.element);
    byId("check-tools").prepend(copyButton("Copy link", () => location.href));
    this.#listen();
  }

  #listen() {
    byId("check-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.checkPair();
    });
    this.file.addEventListener("change", () => void this.#checkFile(this.file.files?.[0]));
    byId("save-json").addEventListener("click", () => saveFile("untold-check.json", JSON.stringify(this.answer, null, 1), "application/json"));
    byId("save-html").addEventListener("click", () => void this.trouble.guard(() => this.#savePage()));
    const zone = byId("drop");
    for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
      zone.addEventListener(name, (event) => {
        event.preventDefault();
        zone.classList.toggle("over", name === "dragenter" || name === "dragover");
      });
    }
    zone.addEventListener("drop", (event) => void this.#checkFile(event.dataTransfer?.files[0]));
  }

  /** @param {string} source @param {string} target */
  fill(source, target) {
    [this.source.value, this.target.value] = [source, target];
  }

  async checkPair() {
    const [source, target] = [this.source.value, this.target.value];
    if (!source.trim() || !target.trim()) {
      this.trouble.say("A check compares two texts: write or paste both the source and its translation.", null);
      return;
    }
    writeAddress({ view: "check", model: this.model(), source, target });
    await this.trouble.guard(() => this.#check({ pairs: [{ source, target }] }));
  }

  /** @param {File | undefined} file */
  async #checkFile(file) {
    if (!file) return;
    this.file.value = "";
    if (file.size > this.limits.file_bytes) {
      this.trouble.say(`${file.name} has ${grouped(file.size)} bytes, and at most ${grouped(this.limits.file_bytes)} are checked here: ` +
        "divide it, or use untold check.", null);
      return;
    }
    writeAddress({ view: "check", model: this.model() });
    await this.trouble.guard(async () => this.#check({ file: { name: file.name, content: await inBase64(file) } }));
  }

  /** @param {object} what */
  async #check(what) {
    this.running?.abort();
    this.running = new AbortController();
    this.stepper.element.hidden = true;
    byId("check-status").textContent = "Checking…";
    try {
      const body = { model: this.model(), threshold: Number(this.threshold.value), ...what };
      this.answer = /** @type {CheckAnswer} */ (await ask("v1/check", body, this.running.signal));
    } catch (error) {
      byId("check-status").textContent = "";
      throw error;
    }
    const { segments, unchecked, findings, damages } = this.answer;
    this.summary = checkSummary(segments, unchecked, findings) + (damages?.length ? `; ${counted(damages.length, "damaged place")}` : "");
    byId("check-status").textContent = `${this.summary}.`;
    byId("check-answer").hidden = false;
    this.list.suspicious.checked = segments > 1 && findings > 0;
    this.list.show(placesOf(this.answer));
  }

  async #savePage() {
    if (this.answer) await savePage("untold-check.html", "check_report.html", { summary: this.summary, places: placesOf(this.answer) });
  }

  /** @param {Place} place */
  async #explain(place) {
    const pairs = [{ source: whole(place.source), target: whole(place.target) }];
    const { sentences } = /** @type {ExplainDocument} */ (await ask("v1/explain", { model: this.model(), pairs }));
    if (!sentences[0]) return;
    this.stepper.element.hidden = false;
    this.stepper.open(sentences[0], sentences[0].target.words.length);
    this.stepper.element.scrollIntoView({ block: "start", behavior: "smooth" });
    this.stepper.player.slider.focus({ preventScroll: true });
  }
}
