// SPDX-License-Identifier: Apache-2.0
// A chart of seconds that can be moved while the server is asked only for what is shown, thinned, and a margin.
import uPlot from "uplot";
import type { RunSeries, SeriesWindow } from "./api";
import { onTheme } from "./theme";
import { instant } from "./words";
import { isShort, moved, wanted, zoomed, type LoadedWindow, type TimeWindow } from "./view";

export interface ChartArm {
  name: string;
  colour: string;
  control: boolean;
}

export interface ChartSource {
  arms: readonly ChartArm[];
  workload: string;
  label: string;
  fetch: (window: SeriesWindow, signal: AbortSignal) => Promise<RunSeries>;
  figure: (value: number | null | undefined) => string;
  /** Values at the cursor, else in the middle, as text. */
  said: (text: string) => void;
  failed: (error: unknown) => void;
}

type Mode = "all" | "latest" | "free";

/** Length of the window that `latest` shows, in seconds. */
const LATEST_S = 120;
const HEIGHT_PX = 300;
/** Steps of the axis of time, in seconds. */
const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 432000, 864000];
const PAN = 0.2;
const ZOOM = 1.4;

export class SeriesChart {
  private plot: uPlot | undefined;
  private view: TimeWindow = { min: 0, max: 60 };
  private end = 0;
  private mode: Mode = "all";
  private loaded: LoadedWindow | undefined;
  private asking: AbortController | undefined;
  private frame = 0;
  private readonly off = new Set<string>();
  private readonly sizes: ResizeObserver;
  private readonly forget: () => void;

  constructor(
    private readonly box: HTMLElement,
    private readonly source: ChartSource,
  ) {
    this.sizes = new ResizeObserver(() => {
      this.plot?.setSize({ width: this.width, height: HEIGHT_PX });
      this.ask();
    });
    this.sizes.observe(box);
    this.forget = onTheme(() => this.redrawn());
    box.addEventListener("keydown", this.key);
    box.addEventListener("wheel", this.wheel, { passive: false });
    box.addEventListener("pointerdown", this.grab);
    void this.load();
  }

  destroy(): void {
    this.sizes.disconnect();
    this.forget();
    this.box.removeEventListener("keydown", this.key);
    this.box.removeEventListener("wheel", this.wheel);
    this.box.removeEventListener("pointerdown", this.grab);
    this.asking?.abort();
    cancelAnimationFrame(this.frame);
    this.plot?.destroy();
  }

  /** More was measured: what follows the end is asked for anew. */
  refresh(): void {
    if (this.asking === undefined) void this.load();
  }

  all(): void {
    this.mode = "all";
    this.show({ min: 0, max: Math.max(this.end, 1) });
  }

  latest(): void {
    this.mode = "latest";
    this.show(moved({ min: 0, max: LATEST_S }, this.end, this.end));
  }

  pan(parts: number): void {
    this.free(moved(this.view, parts * (this.view.max - this.view.min), this.end));
  }

  zoom(factor: number, around = (this.view.min + this.view.max) / 2): void {
    this.free(zoomed(this.view, factor, around, this.end));
  }

  /** Shows or hides an arm. */
  toggle(arm: string, on: boolean): void {
    if (on) this.off.delete(arm);
    else this.off.add(arm);
    this.redrawn();
  }

  private get width(): number {
    return Math.max(this.box.clientWidth, 200);
  }

  private free(view: TimeWindow): void {
    this.mode = "free";
    this.show(view);
  }

  /** Draws at most once a frame; more is asked for when the margin runs out. */
  private show(view: TimeWindow): void {
    this.view = view;
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.plot?.setScale("x", this.view);
        this.say();
      });
    }
    this.ask();
  }

  private ask(): void {
    if (isShort(this.view, this.loaded, this.end, this.width) && this.asking === undefined) void this.load();
  }

  private async load(): Promise<void> {
    const control = new AbortController();
    this.asking = control;
    const whole = this.mode === "all";
    const ask = wanted(this.view, this.end, this.width);
    const points = whole ? Math.ceil(this.width / 2) : ask.points;
    try {
      const window = whole ? { from: null, to: null, points } : { from: ask.from, to: ask.to, points };
      const answer = await this.source.fetch(window, control.signal);
      if (control.signal.aborted) return;
      this.take(answer, points);
      this.asking = undefined;
      // The reader may have moved on meanwhile.
      this.ask();
    } catch (error) {
      this.asking = undefined;
      if (!control.signal.aborted) this.source.failed(error);
    }
  }

  private take(answer: RunSeries, points: number): void {
    const most = Math.max(0, ...answer.series.map((series) => series.t.length));
    this.end = answer.full_to_s;
    this.loaded = { from: answer.from_s, to: answer.to_s, points, thinned: most >= 0.4 * points };
    if (this.mode === "all") this.view = { min: 0, max: Math.max(this.end, 1) };
    if (this.mode === "latest") this.view = moved({ min: 0, max: LATEST_S }, this.end, this.end);
    const data = this.aligned(answer);
    if (this.plot === undefined) this.plot = this.made(data);
    else this.plot.setData(data, false);
    this.plot.setScale("x", this.view);
    this.say();
  }

  /** One column of instants, and low, middle and high of each arm. */
  private aligned(answer: RunSeries): uPlot.AlignedData {
    const tables = this.source.arms.map((arm): uPlot.AlignedData => {
      const found = answer.series.find((s) => s.arm === arm.name && s.workload === this.source.workload);
      return found ? [found.t, found.low, found.high, found.mid] : [[], [], [], []];
    });
    // Mode 2: where nothing was measured stays empty, whatever instants the other arms add in between.
    return tables.length === 0 ? [[]] : uPlot.join(tables, tables.map(() => [0, 2, 2, 2]));
  }

  private made(data: uPlot.AlignedData): uPlot {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--grid"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 },
      font: "12px system-ui, sans-serif",
    };
    const options: uPlot.Options = {
      width: this.width,
      height: HEIGHT_PX,
      padding: [10, 26, 0, 0],
      scales: {
        x: { time: false, auto: false, min: this.view.min, max: this.view.max },
        y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
      },
      axes: [
        { ...axis, incrs: STEPS_S, space: 70, values: (_plot, splits) => splits.map(instant) },
        { ...axis, size: 78, values: (_plot, splits) => splits.map((v) => this.source.figure(v)) },
      ],
      series: [{}, ...this.source.arms.flatMap((arm) => this.lines(arm, colour(arm.colour)))],
      bands: this.source.arms.map((_arm, i) => ({ series: [3 * i + 2, 3 * i + 1] as uPlot.Band.Bounds })),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false, setScale: false } },
      hooks: {
        setCursor: [() => this.say()],
        ready: [() => performance.mark("plimsoll-chart")],
      },
    };
    return new uPlot(options, data, this.box);
  }

  private lines(arm: ChartArm, colour: string): uPlot.Series[] {
    const show = !this.off.has(arm.name);
    const low: uPlot.Series = { show, width: 0, points: { show: false } };
    // The band reaches from the high edge down to the low one.
    const high: uPlot.Series = { ...low, fill: `${colour}2e` };
    const middle: uPlot.Series = { show, width: 1.5, stroke: colour, points: { show: false }, label: arm.name };
    return [low, high, arm.control ? { ...middle, dash: [4, 3] } : middle];
  }

  private redrawn(): void {
    const old = this.plot;
    if (old === undefined) return;
    const data = old.data;
    old.destroy();
    this.plot = this.made(data);
    this.plot.setScale("x", this.view);
  }

  private say(): void {
    const plot = this.plot;
    if (plot === undefined) return;
    const instants = plot.data[0];
    const at = plot.cursor.idx ?? plot.valToIdx((this.view.min + this.view.max) / 2);
    const second = instants[at];
    if (second === undefined) return this.source.said("");
    const figures = this.source.arms.flatMap((arm, i) => {
      const value = plot.data[3 * i + 3]?.[at];
      return this.off.has(arm.name) || value == null ? [] : [`${arm.name} ${this.source.figure(value)}`];
    });
    this.source.said(`At ${instant(second)}: ${figures.join(" · ") || "nothing measured"}`);
  }

  private readonly key = (event: KeyboardEvent): void => {
    const acts: Record<string, () => void> = {
      ArrowLeft: () => this.pan(-PAN),
      ArrowRight: () => this.pan(PAN),
      "+": () => this.zoom(1 / ZOOM),
      "=": () => this.zoom(1 / ZOOM),
      "-": () => this.zoom(ZOOM),
      Home: () => this.all(),
      End: () => this.latest(),
    };
    const act = acts[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  };

  /** The wheel zooms a chart that has the focus; else it scrolls the page. */
  private readonly wheel = (event: WheelEvent): void => {
    if (!event.ctrlKey && document.activeElement !== this.box) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, this.timeAt(event.clientX));
  };

  private timeAt(x: number): number {
    const plot = this.plot;
    return plot ? plot.posToVal(x - plot.over.getBoundingClientRect().left, "x") : 0;
  }

  private readonly grab = (event: PointerEvent): void => {
    const plot = this.plot;
    if (plot === undefined || event.button !== 0 || !(event.target instanceof Node)) return;
    if (!plot.over.contains(event.target)) return;
    const began = { ...this.view };
    const scale = (began.max - began.min) / plot.over.clientWidth;
    const move = (now: PointerEvent): void =>
      this.free(moved(began, (event.clientX - now.clientX) * scale, this.end));
    const drop = (): void => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", drop);
      removeEventListener("pointercancel", drop);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", drop);
    addEventListener("pointercancel", drop);
  };
}
