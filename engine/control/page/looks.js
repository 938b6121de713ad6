// How the page looks and what it says: the only thing that is kept on this machine for longer than the tab.

const KEY = "engine.looks";
const DEFAULTS = { theme: "auto", speech: "ends", letters: true, panel: 45 };

/** The settings, changed by `setLook`. */
export const looks = { ...DEFAULTS };

const CHOICES = { theme: ["auto", "light", "dark"], speech: ["nothing", "ends", "sentences"] };

function isValid(name, value) {
  if (name in CHOICES) return CHOICES[name].includes(value);
  return typeof value === typeof DEFAULTS[name];
}

try {
  const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
  for (const name of Object.keys(DEFAULTS)) if (isValid(name, kept[name])) looks[name] = kept[name];
} catch {
  // Storage is forbidden, or somebody else has written there.
}
apply();

/** Change a setting, and keep it. */
export function setLook(name, value) {
  looks[name] = value;
  try {
    localStorage.setItem(KEY, JSON.stringify(looks));
  } catch {
    // It holds until the page is left.
  }
  apply();
}

function apply() {
  const root = document.documentElement;
  if (looks.theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = looks.theme;
}
