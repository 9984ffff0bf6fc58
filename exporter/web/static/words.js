// Figures as people read them: the same words as the terminal's. Missing is a dash, never a zero.
export const NOTHING = "-";

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return NOTHING;
  if (seconds < 1) return `${Number((1000 * seconds).toPrecision(3))} ms`;
  if (seconds < 120) return seconds < 10 ? `${Number(seconds.toFixed(1))} s` : `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(0)} h` : `${(seconds / 86400).toFixed(0)} d`;
}

export function size(count) {
  if (count === null || count === undefined) return NOTHING;
  let value = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return unit === "B" ? `${Math.round(value)} B` : `${value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

export const rate = (bytes) =>
  bytes === null || bytes === undefined ? NOTHING : `${size(bytes < 0.5 ? 0 : bytes)}/s`;

export const percent = (ratio) =>
  ratio === null || ratio === undefined ? NOTHING : `${Math.round(100 * ratio)}%`;

export const figure = (value) => (value === null || value === undefined ? NOTHING : String(value));

export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

export const className = (name) => name.replaceAll("_", " ");

const two = (number) => String(number).padStart(2, "0");

export function clock(seconds) {
  const date = new Date(1000 * seconds);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
