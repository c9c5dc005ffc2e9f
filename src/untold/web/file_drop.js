// Takes files that are dropped anywhere on the page: a browser would leave the page to open them.

/** @param {DragEvent} event */
const holdsFiles = (event) => event.dataTransfer?.types.includes("Files") ?? false;

/** Hears of dropped files; while some are dragged, the page says what it would do. @param {(files: File[]) => void} take */
export function listenToDrops(take) {
  for (const name of /** @type {const} */ (["dragenter", "dragover", "dragleave", "drop"])) {
    window.addEventListener(name, (event) => {
      if (!holdsFiles(event)) return; // a dragged text goes where it is dropped
      event.preventDefault();
      const left = name === "drop" || (name === "dragleave" && !event.relatedTarget);
      document.body.classList.toggle("dropping", !left);
      if (name === "drop") take([...(event.dataTransfer?.files ?? [])]);
    });
  }
}
