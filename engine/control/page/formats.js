// Times, sizes and amounts as people read them.

/** Format a duration in seconds: `0.3 s`, `12 s`, `2 min 5 s`, `3 h 4 min`. */
export function duration(seconds) {
  const value = Math.max(0, seconds);
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 59.5) return `${Math.round(value)} s`;
  const minutes = Math.floor(Math.round(value) / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(value) % 60} s`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** Format how long ago a moment was, briefly: `now`, `5 min`, `3 h`, `2 d`, `4 Mar`. */
export function age(moment, now) {
  const seconds = Math.max(0, now - moment);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)} d`;
  const date = new Date(moment * 1000);
  const year = date.getFullYear() === new Date(now * 1000).getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/** Format a moment as a time of the day. */
export function clock(moment) {
  return new Date(moment * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** Format a moment completely. */
export function dateTime(moment) {
  return new Date(moment * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

/** Format a number of tokens: `850`, `12.3k`, `1.2M`. */
export function tokens(count) {
  if (count < 1000) return String(count);
  if (count < 99_950) return `${(count / 1000).toFixed(1)}k`;
  if (count < 999_500) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** Format money, in the unit of the models' prices; nothing for nothing. */
export function cost(amount) {
  if (!(amount > 0)) return "";
  if (amount < 0.005) return "< $0.01";
  return `$${amount.toFixed(amount < 100 ? 2 : 0)}`;
}

/** Format a size in bytes. */
export function bytes(size) {
  if (size < 1000) return `${size} B`;
  if (size < 1_000_000) return `${Math.round(size / 1000)} kB`;
  return `${(size / 1_000_000).toFixed(1)} MB`;
}

/** Return a number with its noun: `1 file`, `2 files`. */
export function count(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** Return the last two names of a path, which is what tells folders apart. */
export function shortPath(path) {
  const parts = path.split("/").filter(Boolean);
  return parts.length <= 2 ? path : `…/${parts.slice(-2).join("/")}`;
}
