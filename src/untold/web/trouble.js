// Says what went wrong in one sentence, offers to try again, and asks for a key where one is needed.
import { ApiError, keepKey } from "./api.js";
import { button, byId, make } from "./dom.js";
import { visible } from "./writing.js";

export class Trouble {
  constructor() {
    this.element = make("div", { className: "trouble", role: "alert" });
  }

  clear() {
    this.element.replaceChildren();
  }

  /** @param {string} message @param {(() => void) | null} retry */
  say(message, retry) {
    const again = retry ? [button({ className: "quiet", text: "Try again" }, () => { this.clear(); retry(); })] : [];
    this.element.replaceChildren(make("p", {}, make("span", { "aria-hidden": "true", text: "⚠ " }), visible(message)), ...again);
  }

  /**
   * Runs something; what fails is shown, and can be tried again. What was cancelled is no failure.
   * @param {() => Promise<void>} action
   */
  async guard(action) {
    this.clear();
    try {
      await action();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      const retry = () => void this.guard(action);
      if (error instanceof ApiError && error.status === 401) askForKey(error.message, retry);
      this.say(error instanceof Error ? error.message : String(error), retry);
      if (!(error instanceof ApiError)) console.error(error);
    }
  }
}

/** @param {string} reason @param {() => void} retry */
function askForKey(reason, retry) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("key-dialog"));
  const field = /** @type {HTMLInputElement} */ (byId("key"));
  byId("key-reason").textContent = visible(reason);
  if (!dialog.open) dialog.showModal();
  field.value = "";
  dialog.onclose = () => {
    if (dialog.returnValue !== "use" || !field.value.trim()) return;
    keepKey(field.value.trim());
    retry();
  };
}
