// SPDX-License-Identifier: Apache-2.0
// The chart of a series: a point for each run with its interval, and a line at each change.
import uPlot from "uplot";
import type { SeriesPage } from "./api";
import { onTheme } from "./theme";
import { ratio, when } from "./words";

const HEIGHT_PX = 320;
const MARK_PX = 3;

export class TrendChart {
  private plot: uPlot | undefined;
  private readonly sizes: ResizeObserver;
  private readonly forget: () => void;

  constructor(
    private readonly box: HTMLElement,
    private readonly page: SeriesPage,
    /** Values at the cursor, else at the last point, as text. */
    private readonly said: (text: string) => void,
  ) {
    this.sizes = new ResizeObserver(() => this.plot?.setSize({ width: this.width, height: HEIGHT_PX }));
    this.sizes.observe(box);
    this.forget = onTheme(() => this.draw());
    this.draw();
  }

  destroy(): void {
    this.sizes.disconnect();
    this.forget();
    this.plot?.destroy();
  }

  private get width(): number {
    return Math.max(this.box.clientWidth, 200);
  }

  private draw(): void {
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const points = this.page.points;
    // Runs come when they come: they stand one beside the other, in their order.
    const data: uPlot.AlignedData = [points.map((_, at) => at), points.map((point) => point.ratio)];
    const ends = points.flatMap((point) => [point.low ?? point.ratio, point.high ?? point.ratio]);
    const [low, high] = [Math.min(1, ...ends), Math.max(1, ...ends)];
    const edge = Math.max((high - low) * 0.08, 0.005);
    const axis: uPlot.Axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--grid"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 },
      font: "12px system-ui, sans-serif",
    };
    const day = (at: number): string => points[at]?.began_at.slice(0, 10) ?? "";
    this.plot = new uPlot(
      {
        width: this.width,
        height: HEIGHT_PX,
        padding: [10, 26, 0, 0],
        scales: {
          x: { time: false, range: () => [-0.5, Math.max(points.length - 0.5, 0.5)] },
          y: { range: () => [low - edge, high + edge] },
        },
        axes: [
          { ...axis, space: 90, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500], values: (_plot, at) => at.map(day) },
          { ...axis, size: 64, values: (_plot, splits) => splits.map(ratio) },
        ],
        series: [{}, { paths: () => null, points: { show: true, size: 2 * MARK_PX + 1, fill: colour("--c0") } }],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false, setScale: false } },
        hooks: {
          drawAxes: [(plot) => this.behind(plot, colour)],
          setCursor: [(plot) => this.say(plot.cursor.idx)],
          ready: [() => performance.mark("plimsoll-trend")],
        },
      },
      data,
      this.box,
    );
    this.say(null);
  }

  /** Intervals, changes, and the line on which system and reference are equal. */
  private behind(plot: uPlot, colour: (name: string) => string): void {
    const { ctx } = plot;
    const x = (at: number): number => plot.valToPos(at, "x", true);
    const y = (value: number): number => plot.valToPos(value, "y", true);
    const line = (from: [number, number], to: [number, number], stroke: string, width: number): void => {
      ctx.strokeStyle = stroke;
      ctx.lineWidth = width * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(...from);
      ctx.lineTo(...to);
      ctx.stroke();
    };
    ctx.save();
    const { left, top, width, height } = plot.bbox;
    line([left, y(1)], [left + width, y(1)], colour("--soft"), 1);
    for (const change of this.page.changes) {
      const at = x(change.first - 0.5);
      line([at, top], [at, top + height], colour(change.acknowledged === null ? "--bad" : "--soft"), 2);
    }
    this.page.points.forEach((point, at) => {
      if (point.low === null || point.high === null) return;
      line([x(at), y(point.low)], [x(at), y(point.high)], colour("--c0"), 1.5);
    });
    ctx.restore();
  }

  private say(at: number | null | undefined): void {
    const point = this.page.points[at ?? this.page.points.length - 1];
    if (point === undefined) return this.said("");
    const interval = point.low === null || point.high === null ? "" : ` (${ratio(point.low)} to ${ratio(point.high)})`;
    const revision = point.revision === "" ? "" : `, ${point.revision}`;
    this.said(`${when(point.began_at)}: ${ratio(point.ratio)}${interval}${revision}`);
  }
}
