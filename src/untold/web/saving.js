// Copies texts and saves files that need no server.
import { button, make } from "./dom.js";
import { visible } from "./writing.js";

const ESCAPED = /[<>&\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]/gu;

/** Writes values so that they can stand in a page, where nothing of them can become markup. @param {unknown} values */
export const scriptJson = (values) =>
  JSON.stringify(values).replace(ESCAPED, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Makes a button that copies. @param {string} label @param {() => string} text */
export function copyButton(label, text) {
  const copied = button({ className: "quiet", text: label }, async () => {
    copied.textContent = (await copy(text())) ? "Copied ✓" : "Not copied";
    setTimeout(() => { copied.textContent = label; }, 1600);
  });
  return copied;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // without a secure connection there is only the old way
    const area = make("textarea", { className: "hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** @param {string} name @param {string} text @param {string} type */
export function saveFile(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/**
 * Saves a page of one file: a template that the server has, with data inside.
 * @param {string} name
 * @param {string} template
 * @param {unknown} data
 * @param {string} [title]
 */
export async function savePage(name, template, data, title = "") {
  const answer = await fetch(`static/${template}`);
  if (!answer.ok) throw new Error(`The server has no ${template}: try again.`);
  const [before = "", after = ""] = (await answer.text()).split("<!--data-->");
  const safe = visible(title).replace(/[<>&]/g, " ");
  saveFile(name, before.split("<!--title-->").join(safe) + scriptJson(data) + after, "text/html");
}

/** Reads a file as base64. @param {File} file @returns {Promise<string>} */
export async function inBase64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(text);
}
