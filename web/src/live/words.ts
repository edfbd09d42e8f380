// SPDX-License-Identifier: Apache-2.0
// Figures, times and commands as text.
import type { Command, SeriesMetric } from "./api";

const SI = ["", "k", "M", "G", "T"] as const;

/** Three digits that count, with a factor of 1000. */
function scaled(value: number, unit: string): string {
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < SI.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${digits(value)} ${SI[step]}${unit}`.trim();
}

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : 2).replace(/\.0+$/, "");
}

export function duration(seconds: number): string {
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds)} s`;
}

/** A ratio with four digits: small changes are what is looked for. */
export function ratio(value: number): string {
  return value.toPrecision(4);
}

/** A length of time as people say it: `2 h 05 min`. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 100) return `${whole} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 100) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

const UNITS_S: Record<string, number> = { us: 1e-6, µs: 1e-6, ms: 1e-3, s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86_400 };

/** A length of time as it is typed: `90s`, `1h30m`; nothing where it is none. */
export function secondsOf(text: string): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  const parts = [...text.matchAll(/([\d.]+)\s*([a-zµ]+)\s*/gy)];
  if (parts.length === 0 || parts.map(([part]) => part).join("") !== text) return undefined;
  const seconds = parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS_S[unit ?? ""] ?? NaN), 0);
  return Number.isNaN(seconds) ? undefined : seconds;
}

export function figure(metric: SeriesMetric, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  switch (metric) {
    case "iops":
      return scaled(value, "");
    case "bandwidth":
      return scaled(value, "B/s");
    default:
      return duration(value);
  }
}

/** A time since the beginning: `45 s`, `12:05`, `3:00:00`. */
export function instant(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 100) return `${whole} s`;
  const two = (n: number): string => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export const METRIC_NAMES: Record<SeriesMetric, string> = {
  iops: "IOPS",
  bandwidth: "Bandwidth",
  p50: "Median response time",
  p99: "p99 response time",
};

/** Date and time, to the minute, where the reader is. */
export function when(at: string | null): string {
  if (at === null) return "–";
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const two = (n: number): string => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** A command as a person types it. */
export function commandText(command: Command): string {
  return typeof command === "string" ? command : command.map(quoted).join(" ");
}

export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `name(a=1,b=2)`: a stack or layer with those settings that differ from what is usual. */
export function withSettings(name: string, settings: Record<string, string>): string {
  const given = Object.entries(settings).filter(([, value]) => value !== "");
  return given.length === 0 ? name : `${name}(${given.map(([key, value]) => `${key}=${value}`).join(",")})`;
}

/** `name,a=1,b=2`: a workload with such settings. */
export function workloadWith(name: string, settings: Record<string, string>): string {
  const given = Object.entries(settings).filter(([, value]) => value !== "");
  return [name, ...given.map(([key, value]) => `${key}=${value}`)].join(",");
}
