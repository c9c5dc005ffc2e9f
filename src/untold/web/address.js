// The address of the page names what is shown. Browsers do not send this part of it anywhere.

const LONGEST = 40_000; // characters of an address that every browser takes

/** @param {string} address @returns {Record<string, string>} */
export const readAddress = (address = location.href) => Object.fromEntries(new URLSearchParams(new URL(address).hash.slice(1)));

/** Names what is shown, without a new entry in the browser's history. @param {Record<string, string | number>} values */
export function writeAddress(values) {
  const named = Object.entries(values).filter(([, value]) => value !== "").map(([name, value]) => [name, String(value)]);
  const text = new URLSearchParams(named).toString();
  history.replaceState(null, "", text.length > LONGEST ? location.pathname : `#${text}`);
}
