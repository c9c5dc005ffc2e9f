// What this browser remembers. Where it may not, as in some files and modes, nothing is kept.

/** @param {string} key @param {Storage} [storage] */
export function recall(key, storage) {
  try {
    return (storage ?? localStorage).getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string | null} value null forgets it @param {Storage} [storage] */
export function remember(key, value, storage) {
  try {
    if (value === null) (storage ?? localStorage).removeItem(key);
    else (storage ?? localStorage).setItem(key, value);
  } catch {
    // The page works without it.
  }
}
