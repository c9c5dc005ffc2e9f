// Light or dark: as the system says until the reader chooses.
import { button } from "./dom.js";
import { recall, remember } from "./memory.js";

const THEME_KEY = "untold.theme";

const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

/** Makes the button that changes between light and dark. */
export function themeButton() {
  const chosen = recall(THEME_KEY);
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  const toggle = button({ className: "quiet icon", title: "Light or dark" }, () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    remember(THEME_KEY, document.documentElement.dataset.theme);
    say();
  });
  const say = () => {
    toggle.textContent = isDark() ? "☀" : "☾";
    toggle.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", say);
  say();
  return toggle;
}
