// SPDX-License-Identifier: Apache-2.0
// Which stretch of time a chart shows, and which it has to ask for. No drawing and no network here.

export interface TimeWindow {
  min: number;
  max: number;
}

/** Requested data that has arrived. */
export interface LoadedWindow {
  from: number;
  to: number;
  /** Points that each series was asked to have at most. */
  points: number;
  /** Whether there was more between them. */
  thinned: boolean;
}

/** No stretch is shorter than this, in seconds: rows are a second long. */
const SHORTEST_S = 5;
/** Part of the shown stretch that is left on a side before more is asked for. */
const MARGIN = 0.4;
/** Points per pixel below which a finer answer is worth asking for. */
const COARSE = 0.22;

/** Moves a stretch, within what there is. */
export function moved(window: TimeWindow, by: number, end: number): TimeWindow {
  const span = window.max - window.min;
  const min = Math.max(0, Math.min(window.min + by, Math.max(0, end - span)));
  return { min, max: min + span };
}

/** Makes a stretch longer or shorter; the instant `around` keeps its place. */
export function zoomed(window: TimeWindow, factor: number, around: number, end: number): TimeWindow {
  const old = window.max - window.min;
  const span = Math.min(Math.max(old * factor, SHORTEST_S), Math.max(end, SHORTEST_S));
  const min = around - ((around - window.min) / old) * span;
  return moved({ min, max: min + span }, 0, end);
}

/** The stretch to ask for: what is shown, and as much on both sides. */
export function wanted(view: TimeWindow, end: number, width_px: number): LoadedWindow {
  const span = view.max - view.min;
  const from = Math.max(0, view.min - span);
  const to = Math.min(Math.max(end, view.max), view.max + span);
  const points = Math.min(4000, Math.ceil(((to - from) / span) * width_px * 0.5));
  return { from, to, points, thinned: false };
}

/** Whether what is loaded no longer serves what is shown. */
export function isShort(view: TimeWindow, loaded: LoadedWindow | undefined, end: number, width_px: number): boolean {
  if (loaded === undefined) return true;
  const span = view.max - view.min;
  const left = loaded.from > 0 && view.min - loaded.from < MARGIN * span;
  const right = loaded.to < end && loaded.to - view.max < MARGIN * span;
  const shown = (loaded.points * span) / Math.max(loaded.to - loaded.from, SHORTEST_S);
  return left || right || (loaded.thinned && shown < COARSE * width_px);
}
