// SPDX-License-Identifier: Apache-2.0
// One run: live while it goes on, the same page when it has ended.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, EXPORTS, type RunDetail, type RunProgress, type RunSecond } from "./api";
import { listen, useLoaded } from "./connection";
import { DrawnParts } from "./html";
import { ActionButton, CommandBox, Page, StateChip, Waiting } from "./parts";
import { go, href } from "./router";
import { Latest, Timeline } from "./timeline";
import { span, when } from "./words";

/** How often the run itself is asked for: its streams tell sooner, while they are there. */
const EVERY_S = 3;
/** The chart is asked for again at most this often. */
const CHART_MS = 1000;

interface Live {
  progress: RunProgress | undefined;
  seconds: Map<string, RunSecond>;
  notes: string[];
}

export function RunPage(props: { id: string }): JSX.Element {
  const { value: run, error, reload } = useLoaded(() => api.run(props.id), [props.id], EVERY_S);
  if (run === undefined) {
    return (
      <Page title="Run">
        <Waiting error={error} />
      </Page>
    );
  }
  return <Shown run={run} reload={reload} />;
}

function Shown(props: { run: RunDetail; reload: () => void }): JSX.Element {
  const { run, reload } = props;
  const [live, setLive] = useState<Live>({ progress: undefined, seconds: new Map(), notes: [] });
  const [trials, setTrials] = useState(0);
  const [revision, setRevision] = useState(0);
  const last = useRef(0);
  useEffect(() => {
    if (run.state !== "running") return;
    const fresh = (): void => {
      const now = performance.now();
      if (now - last.current < CHART_MS || document.hidden) return;
      last.current = now;
      setRevision((n) => n + 1);
    };
    const changed = (): void => {
      setTrials((n) => n + 1);
      setRevision((n) => n + 1);
      reload();
    };
    return listen(
      api.runEvents(run.id),
      {
        progress: (data) => setLive((old) => ({ ...old, progress: data as RunProgress })),
        second: (data) => {
          const second = data as RunSecond;
          setLive((old) => ({ ...old, seconds: new Map(old.seconds).set(`${second.arm} ${second.workload}`, second) }));
          fresh();
        },
        trial: changed,
        note: (data) => setLive((old) => ({ ...old, notes: [...old.notes, (data as { text: string }).text] })),
        end: changed,
      },
      changed,
    );
  }, [run.id, run.state]);
  const progress = (run.state === "running" ? live.progress : undefined) ?? run.progress;
  return (
    <Page title={run.title} lead={run.subtitle}>
      <Progress run={run} progress={progress} reload={reload} />
      {run.state === "running" && <Latest seconds={[...live.seconds.values()]} />}
      <Sections id={run.id} trials={trials} state={run.state} />
      <Timeline run={run} revision={revision} />
      <Notes notes={live.notes} />
      <section id="command">
        <h2>Which command made it?</h2>
        <CommandBox command={run.command} />
        <p class="note">
          <a href={api.reportAddress(run.id)}>The report as a page of its own</a>. As a file:{" "}
          {EXPORTS.map((format) => (
            <>
              <a key={format} href={api.exportAddress(run.id, format)} download>
                {format}
              </a>{" "}
            </>
          ))}
        </p>
      </section>
    </Page>
  );
}

function Progress(props: { run: RunDetail; progress: RunProgress; reload: () => void }): JSX.Element {
  const { run, progress } = props;
  const done = progress.trials_done;
  const planned = progress.trials_planned;
  const now = progress.now;
  const texts = [
    run.state === "running" && progress.ends_in_s !== null ? `ends in about ${span(progress.ends_in_s)}` : "",
    planned === null ? `${done} trials` : `${done} of ${planned} trials`,
    `began ${when(run.began_at)}`,
  ];
  const block = now && progress.blocks_planned !== null ? `block ${now.block + 1} of ${progress.blocks_planned} · ` : "";
  return (
    <div class="status">
      <p>
        <StateChip state={run.state} /> <span>{texts.filter(Boolean).join(" · ")}</span>
      </p>
      {run.state === "running" && planned !== null && (
        <progress value={done} max={Math.max(planned, 1)} aria-label="Trials done" />
      )}
      {run.state === "running" && now && (
        <p class="muted">
          Now: {block}
          {now.workload} on {now.arm} · {now.phase}
        </p>
      )}
      <div class="bar">
        {run.state === "running" && run.job !== null && <StopButton job={run.job} reload={props.reload} />}
        {run.state === "running" && run.job === null && (
          <p class="note">Started elsewhere: Ctrl-C in its terminal stops it.</p>
        )}
        {run.state === "stopped" && (
          <ActionButton
            label="Resume"
            kind="main"
            action={async () => {
              const job = await api.resumeRun(run.id);
              go("starting", job.id);
            }}
          />
        )}
        {run.job !== null && <a href={href("jobs", run.job)}>What it prints</a>}
      </div>
    </div>
  );
}

function StopButton(props: { job: string; reload: () => void }): JSX.Element {
  const stop = async (): Promise<void> => {
    await api.stopJob(props.job);
    props.reload();
  };
  return <ActionButton label="Stop" confirm="Stop and report what is done" kind="risky" action={stop} />;
}

/** The report, drawn by the server; asked for again when a trial has ended. */
function Sections(props: { id: string; trials: number; state: string }): JSX.Element {
  const { value, error } = useLoaded(() => api.sections(props.id), [props.id, props.trials, props.state]);
  const kept = useRef(value);
  if (value !== undefined) kept.current = value;
  const shown = kept.current;
  const answer = useMemo(() => (shown ? [{ id: "answer", html: shown.answer }] : []), [shown]);
  if (shown === undefined) return <Waiting error={error} />;
  return (
    <>
      <DrawnParts parts={answer} />
      <nav aria-label="Sections of the report">
        {shown.sections.map((section) => (
          <>
            <a key={section.id} href={`#${section.id}`}>
              {section.title}
            </a>{" "}
          </>
        ))}
      </nav>
      <DrawnParts parts={shown.sections} />
    </>
  );
}

function Notes(props: { notes: string[] }): JSX.Element | null {
  if (props.notes.length === 0) return null;
  return (
    <section id="notes">
      <h2>What was noted on the way?</h2>
      <ul aria-live="polite">
        {props.notes.map((note, i) => (
          <li key={i}>{note}</li>
        ))}
      </ul>
    </section>
  );
}
