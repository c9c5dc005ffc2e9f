// How texts of any language are written: direction, invisible characters, numbers.
/** @import {Side} from "./types.js" */

const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;
const UPRIGHT = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
// As in untold/errors.py: what ends lines, turns the direction of writing or shows nothing.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]/gu;

/** The first letter decides, as dir="auto" does. @param {string} text @returns {"ltr" | "rtl"} */
export function direction(text) {
  const letter = text.match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}

/** Tells whether a word stands upright in a vertical line. @param {string} word */
export const standsUpright = (word) => UPRIGHT.test(word);

/** The language and direction of a side, as attributes. @param {Side} side */
export function written(side) {
  return { lang: side.language || undefined, dir: direction(side.text) };
}

/**
 * Writes control characters visibly: ESC becomes the four characters \x1b.
 * @param {string} text
 * @param {string} [keep] characters that stay as they are
 */
export function visible(text, keep = "") {
  return text.replace(CONTROLS, (sign) => {
    if (keep.includes(sign)) return sign;
    const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[sign];
    const code = sign.charCodeAt(0);
    if (short) return short;
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** @param {number} share */
export const percent = (share) => Math.round(100 * share);

/** @param {number} number */
export const grouped = (number) => number.toLocaleString("en");

/**
 * Writes a count with its noun.
 * @param {number} number
 * @param {string} noun in the singular
 */
export const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/**
 * Counts the words of a text that its beginning covers, with or without blanks between words.
 * @param {string[]} words
 * @param {string} beginning
 */
export function coveredWords(words, beginning) {
  const letters = beginning.replace(/\s+/gu, "").length;
  let length = 0;
  const first = words.findIndex((word) => (length += word.replace(/\s+/gu, "").length) > letters);
  return first < 0 ? words.length : first;
}
