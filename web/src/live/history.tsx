// SPDX-License-Identifier: Apache-2.0
// A team's history: series of ratios to a reference, and what changed in them.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Series, type SeriesChange, type SeriesPage } from "./api";
import { useLoaded } from "./connection";
import { ActionButton, Page, Waiting } from "./parts";
import { href } from "./router";
import { TrendChart } from "./trend";
import { ratio, when } from "./words";

const EVERY_S = 30;
const MUTE_DAYS = 7;

export function HistoryPage(): JSX.Element {
  const [words, setWords] = useState("");
  const { value: all, error } = useLoaded(() => api.seriesList(words), ["history", words]);
  return (
    <Page title="History" lead="A system divided by the reference that was measured in the same blocks, run after run.">
      <div class="bar">
        <input
          type="search"
          aria-label="Find series by a word"
          placeholder="Find"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </div>
      {all === undefined ? (
        <Waiting error={error} />
      ) : all.length === 0 ? (
        <p class="muted">No series. Push runs of at least two systems: plimsoll push.</p>
      ) : (
        <SeriesTable all={all} />
      )}
    </Page>
  );
}

function SeriesTable(props: { all: Series[] }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Series">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">System ÷ reference</th>
            <th scope="col">Workload</th>
            <th scope="col">Metric</th>
            <th scope="col">Condition</th>
          </tr>
        </thead>
        <tbody>
          {props.all.map((one) => (
            <tr key={one.id} class="first">
              <td>
                <a href={href("history", String(one.id))}>{nameOf(one)}</a>
                {one.control && <small>A/A control</small>}
              </td>
              <td>{one.workload}</td>
              <td>{one.metric}</td>
              <td>{one.condition}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function nameOf(series: Series): string {
  return `${series.system} ÷ ${series.reference}`;
}

export function SeriesPageView(props: { id: string }): JSX.Element {
  const { value, error, reload } = useLoaded(() => api.seriesPage(props.id), ["series", props.id], EVERY_S);
  if (value === undefined) {
    return (
      <Page title="Series">
        <Waiting error={error} />
      </Page>
    );
  }
  const { series } = value;
  const what = [series.metric, series.workload, series.condition].filter((word) => word !== "").join(", ");
  return (
    <Page title={nameOf(series)} lead={what}>
      <Trend page={value} />
      <Changes id={props.id} page={value} reload={reload} />
      <Mute id={props.id} page={value} reload={reload} />
      <Points page={value} />
    </Page>
  );
}

function Trend(props: { page: SeriesPage }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [said, setSaid] = useState("");
  const key = JSON.stringify(props.page);
  useEffect(() => {
    if (box.current === null) return;
    const chart = new TrendChart(box.current, props.page, setSaid);
    return () => chart.destroy();
  }, [key]);
  return (
    <section aria-label="Ratio of each run, with its interval">
      <div ref={box} class="trend" role="img" aria-label={`Ratios of ${props.page.points.length} runs; the table below has them`} />
      <p class="note" role="status">
        {said}
      </p>
    </section>
  );
}

interface Acted {
  id: string;
  page: SeriesPage;
  reload: () => void;
}

function Changes(props: Acted): JSX.Element {
  const { changes, floor } = props.page;
  const least = floor > 0 ? ` No change below ${(100 * floor).toFixed(1)} % counts: the A/A controls admit as much.` : "";
  return (
    <section>
      <h2>Changes</h2>
      <p class="note">
        {changes.length === 0 ? "None found." : "Newest last."}
        {least}
      </p>
      <ol>
        {changes.map((change) => (
          <Change key={change.found} {...props} change={change} />
        ))}
      </ol>
    </section>
  );
}

function Change(props: Acted & { change: SeriesChange }): JSX.Element {
  const { change, page } = props;
  const [note, setNote] = useState("");
  const at = page.points[change.first];
  if (at === undefined) return <li>–</li>;
  const act = async (): Promise<void> => {
    await api.markSeries(props.id, { kind: "acknowledged", run: at.run, note });
    props.reload();
  };
  return (
    <li>
      ×{ratio(change.ratio)} ({ratio(change.low)} to {ratio(change.high)}) from{" "}
      <a href={href("runs", at.run)}>{when(at.began_at)}</a>
      {change.around.length > 0 && <>; other there: {change.around.join("; ")}</>}
      {change.acknowledged !== null ? (
        <p class="note">Acknowledged {change.acknowledged}</p>
      ) : (
        <div class="bar">
          <input
            type="text"
            aria-label="Why it changed"
            placeholder="Why"
            value={note}
            onInput={(event) => setNote(event.currentTarget.value)}
          />
          <ActionButton label="Acknowledge" action={act} />
        </div>
      )}
    </li>
  );
}

function Mute(props: Acted): JSX.Element {
  const say = (form: { kind: string; days?: number }) => async (): Promise<void> => {
    await api.markSeries(props.id, form);
    props.reload();
  };
  const { muted } = props.page;
  return (
    <div class="bar">
      {muted === null ? (
        <ActionButton label={`Mute for ${MUTE_DAYS} days`} action={say({ kind: "muted", days: MUTE_DAYS })} />
      ) : (
        <>
          <p class="note">Muted {muted}</p>
          <ActionButton label="Unmute" action={say({ kind: "unmuted" })} />
        </>
      )}
    </div>
  );
}

function Points(props: { page: SeriesPage }): JSX.Element {
  const newest = [...props.page.points].reverse();
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Runs of the series">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Ratio</th>
            <th scope="col">Interval</th>
            <th scope="col">Blocks</th>
            <th scope="col">Revision</th>
            <th scope="col">Other than before</th>
          </tr>
        </thead>
        <tbody>
          {newest.map((point) => (
            <tr key={point.run} class="first">
              <td>
                <a href={href("runs", point.run)}>{when(point.began_at)}</a>
              </td>
              <td class="n">{ratio(point.ratio)}</td>
              <td class="n">
                {point.low === null || point.high === null ? "–" : `${ratio(point.low)} to ${ratio(point.high)}`}
              </td>
              <td class="n">{point.blocks}</td>
              <td>{point.revision}</td>
              <td>{point.changes.join("; ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
