// The live page: two views, one model for both, and what the address asks for.
import { readAddress } from "./address.js";
import { ask } from "./api.js";
import { CheckView } from "./check_view.js";
import { byId, choose, make } from "./dom.js";
import { stepByKeys } from "./stepper.js";
import { themeButton } from "./theme.js";
import { TranslateView } from "./translate_view.js";
import { Trouble } from "./trouble.js";
/** @import {Catalogue, Model} from "./types.js" */

const UNCHECKED = "This model is not calibrated, so that it cannot check: choose another one, or run untold calibrate.";
const VIEWS = ["translate", "check"];

/** Shows one view. @param {string} name @param {boolean} [focus] */
function showView(name, focus = false) {
  for (const each of VIEWS) {
    const tab = byId(`${each}-tab`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    byId(each).hidden = each !== name;
    if (focus && each === name) tab.focus();
  }
}

function listenToTabs() {
  VIEWS.forEach((name, place) => {
    const tab = byId(`${name}-tab`);
    tab.addEventListener("click", () => showView(name));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      showView(VIEWS[(place + 1) % VIEWS.length] ?? name, true);
    });
  });
}

/** @param {Model} model */
function modelLabel({ name, source_language: source, target_language: target }) {
  return source && target && !name.includes(source) ? `${name} (${source} → ${target})` : name;
}

/** @param {Catalogue} catalogue */
function start(catalogue) {
  const models = /** @type {HTMLSelectElement} */ (byId("model"));
  const other = /** @type {HTMLSelectElement} */ (byId("other"));
  models.replaceChildren(...catalogue.models.map((model) => make("option", { value: model.name, text: modelLabel(model) })));
  other.append(...catalogue.models.map((model) => make("option", { value: model.name, text: modelLabel(model) })));
  /** @type {HTMLElement} */ (other.parentElement).hidden = catalogue.models.length < 2;
  const beam = /** @type {HTMLInputElement} */ (byId("beam"));
  beam.max = String(catalogue.limits.beam);
  models.value = catalogue.default;
  const noteModel = () => {
    translate.offerExamples();
    const known = catalogue.models.find((each) => each.name === models.value);
    byId("check-note").textContent = known?.calibrated ? "" : UNCHECKED;
  };
  const useModel = (/** @type {string} */ name) => { choose(models, name); noteModel(); };
  const translate = new TranslateView(catalogue, () => models.value, useModel);
  const check = new CheckView(() => models.value, catalogue.limits, () => showView("check"));
  byId("settings").append(translate.alternatives.label);
  models.addEventListener("change", () => {
    noteModel();
    if (!byId("translate").hidden) void translate.run("");
  });
  const follow = (/** @type {Record<string, string>} */ address) => {
    useModel(address.model ?? models.value);
    fromAddress(address, translate, check);
  };
  // An answer that comes before this event writes its own address: the event knows the one that was asked for.
  window.addEventListener("hashchange", ({ newURL }) => follow(readAddress(newURL)));
  follow(readAddress());
}

/** @param {Record<string, string>} address @param {TranslateView} translate @param {CheckView} check */
function fromAddress(address, translate, check) {
  const { view, text, prefix, step, source = "", target = "" } = address;
  showView(view === "check" ? "check" : "translate");
  if (view === "check" && source) {
    check.fill(source, target);
    void check.checkPair();
  } else if (text) {
    translate.set(address);
    translate.begin({ text, prefix, step });
  } else if (translate.text.value) void translate.run(""); // typed while the page was loading
}

listenToTabs();
stepByKeys();
byId("tools").append(themeButton());
const startTrouble = new Trouble();
byId("start-trouble").append(startTrouble.element);
void startTrouble.guard(async () => start(await ask("v1/models")));
