// SPDX-License-Identifier: Apache-2.0
// Measured values of every arm, second by second.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, METRICS, type RunArm, type RunDetail, type RunSecond, type SeriesMetric } from "./api";
import { SeriesChart } from "./chart";
import { asServerError, reportGone } from "./connection";
import { Refused, Select } from "./parts";
import type { ServerError } from "./api";
import { figure, METRIC_NAMES } from "./words";

/** Between two looks at a run that is being read. */
const REREAD_MS = 700;
const KEYS = "Arrow keys move, plus and minus zoom, Home shows all, End the latest.";

/** The variable of the page's sheet that holds an arm's colour. */
export function colourOf(arm: RunArm, index: number): string {
  const number = typeof arm.colour === "number" ? arm.colour : Number(/\d+/.exec(arm.colour)?.[0] ?? index);
  return `--c${number % 8}`;
}

export function Timeline(props: { run: RunDetail; revision: number }): JSX.Element {
  const { run } = props;
  const [metric, setMetric] = useState<SeriesMetric>("iops");
  const [workload, setWorkload] = useState(run.workloads[0] ?? "");
  const [off, setOff] = useState<string[]>([]);
  // Set directly: it changes with every frame, and nothing else does.
  const readout = useRef<HTMLParagraphElement>(null);
  const [error, setError] = useState<ServerError>();
  const [read, setRead] = useState({ share: 1 });
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<SeriesChart | undefined>(undefined);
  const names = run.arms.map((arm) => arm.name).join("\n");
  const label = `${METRIC_NAMES[metric]} of ${workload} over time`;
  useEffect(() => {
    if (box.current === null) return;
    const made = new SeriesChart(box.current, {
      arms: run.arms.map((arm, i) => ({ name: arm.name, colour: colourOf(arm, i), control: arm.control })),
      workload,
      label,
      fetch: async (window, signal) => {
        const found = await api.series(run.id, metric, window, signal);
        setRead({ share: found.read });
        return found;
      },
      figure: (value) => figure(metric, value),
      said: (text) => {
        if (readout.current) readout.current.textContent = text;
      },
      failed: (caught) => {
        const refused = asServerError(caught);
        if (refused.isGone) reportGone();
        else setError(refused);
      },
    });
    for (const arm of off) made.toggle(arm, false);
    chart.current = made;
    return () => made.destroy();
  }, [run.id, names, metric, workload]);
  useEffect(() => chart.current?.refresh(), [props.revision]);
  // A long run is shown while it is being read.
  useEffect(() => {
    if (!(read.share < 1)) return;
    const again = setTimeout(() => chart.current?.refresh(), REREAD_MS);
    return () => clearTimeout(again);
  }, [read]);
  const flip = (arm: string): void => {
    const on = off.includes(arm);
    chart.current?.toggle(arm, on);
    setOff(on ? off.filter((name) => name !== arm) : [...off, arm]);
  };
  return (
    <section id="timeline">
      <h2>What is measured, second by second?</h2>
      <div class="bar">
        <Metrics metric={metric} set={setMetric} />
        {run.workloads.length > 1 && (
          <Select
            label="Workload"
            value={workload}
            set={setWorkload}
            options={run.workloads.map((value) => ({ value, label: value }))}
          />
        )}
        <Moves chart={() => chart.current} />
      </div>
      <Refused error={error} />
      {read.share < 1 && <p class="note">{Math.round(read.share * 100)} % of this run has been read so far.</p>}
      <div ref={box} class="chart" tabIndex={0} role="group" aria-label={`${label}. ${KEYS}`} />
      <p ref={readout} class="note readout" />
      <Legend run={run} off={off} flip={flip} />
      <p class="note">
        A line is the middle of what its seconds show, the band their lowest and highest. {KEYS} Drag moves; the wheel
        zooms a chart that was clicked.
      </p>
    </section>
  );
}

function Metrics(props: { metric: SeriesMetric; set: (metric: SeriesMetric) => void }): JSX.Element {
  return (
    <div class="group" role="group" aria-label="Metric">
      {METRICS.map((metric) => (
        <button
          key={metric}
          type="button"
          class="plain"
          aria-pressed={metric === props.metric}
          onClick={() => props.set(metric)}
        >
          {METRIC_NAMES[metric]}
        </button>
      ))}
    </div>
  );
}

function Moves(props: { chart: () => SeriesChart | undefined }): JSX.Element {
  const moves: [string, string, (chart: SeriesChart) => void][] = [
    ["←", "Earlier", (chart) => chart.pan(-0.5)],
    ["→", "Later", (chart) => chart.pan(0.5)],
    ["+", "Closer", (chart) => chart.zoom(0.5)],
    ["−", "Wider", (chart) => chart.zoom(2)],
    ["All", "All", (chart) => chart.all()],
    ["Latest", "Latest", (chart) => chart.latest()],
  ];
  return (
    <div class="group" role="group" aria-label="Time shown">
      {moves.map(([sign, name, act]) => (
        <button
          key={name}
          type="button"
          class="plain"
          aria-label={name}
          onClick={() => {
            const chart = props.chart();
            if (chart) act(chart);
          }}
        >
          {sign}
        </button>
      ))}
    </div>
  );
}

function Legend(props: { run: RunDetail; off: string[]; flip: (arm: string) => void }): JSX.Element {
  return (
    <div class="group legend" role="group" aria-label="Arms shown">
      {props.run.arms.map((arm, i) => (
        <button
          key={arm.name}
          type="button"
          class="switch"
          aria-pressed={!props.off.includes(arm.name)}
          onClick={() => props.flip(arm.name)}
        >
          <span class={`swatch ${colourOf(arm, i).slice(2)}`} aria-hidden="true" /> {arm.name}
          {arm.control && !arm.name.includes("control") && " (control)"}
        </button>
      ))}
    </div>
  );
}

/** The last second of each arm and workload. */
export function Latest(props: { seconds: RunSecond[] }): JSX.Element | null {
  if (props.seconds.length === 0) return null;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="The last second of each arm">
      <table>
        <caption>The last second of each arm</caption>
        <thead>
          <tr>
            <th scope="col">Arm</th>
            <th scope="col">Workload</th>
            <th scope="col" class="n">
              At
            </th>
            {METRICS.map((metric) => (
              <th key={metric} scope="col" class="n">
                {METRIC_NAMES[metric]}
              </th>
            ))}
            <th scope="col" class="n">
              Errors
            </th>
          </tr>
        </thead>
        <tbody>
          {props.seconds.map((second) => (
            <tr key={`${second.arm} ${second.workload}`} class="first">
              <td>{second.arm}</td>
              <td>{second.workload}</td>
              <td class="n">{Math.round(second.t_s)} s</td>
              <td class="n">{figure("iops", second.iops)}</td>
              <td class="n">{figure("bandwidth", second.bandwidth)}</td>
              <td class="n">{figure("p50", second.p50_s)}</td>
              <td class="n">{figure("p99", second.p99_s)}</td>
              <td class={second.errors > 0 ? "n bad" : "n"}>{second.errors}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
