// SPDX-License-Identifier: Apache-2.0
// Commands that this server started, and their output.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Job } from "./api";
import { listen, useLoaded } from "./connection";
import { ActionButton, CommandBox, Page, StateChip, Waiting } from "./parts";
import { href } from "./router";
import { commandText, when } from "./words";

const EVERY_S = 3;
/** Lines that are kept of a long log. */
const LINES_MAX = 2000;

export function JobsPage(): JSX.Element {
  const { value: jobs, error } = useLoaded(api.jobs, ["jobs"], EVERY_S);
  return (
    <Page title="Jobs" lead="Commands that this server started, newest first.">
      {jobs === undefined ? (
        <Waiting error={error} />
      ) : jobs.length === 0 ? (
        <p class="muted">None since the server was started.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-label="Jobs">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Command</th>
                <th scope="col">State</th>
                <th scope="col">Began</th>
              </tr>
            </thead>
            <tbody>
              {jobs.map((job) => (
                <tr key={job.id} class="first">
                  <td>
                    <a href={href("jobs", job.id)}>
                      <code>{commandText(job.command)}</code>
                    </a>
                  </td>
                  <td>
                    <StateChip state={job.state} />
                  </td>
                  <td class="n">{when(job.began_at)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}

export function JobPage(props: { id: string }): JSX.Element {
  return (
    <Page title="Job">
      <JobLog id={props.id} />
    </Page>
  );
}

const RUN_MS = 500;

/** A job that makes a run: its page is gone to as soon as the run has a folder. */
export function StartingPage(props: { id: string }): JSX.Element {
  useEffect(() => {
    const timer = setInterval(() => {
      void api.job(props.id).then(
        (job) => {
          if (job.run !== null) location.replace(href("runs", job.run));
          if (job.state !== "running") clearInterval(timer);
        },
        // The log below says it.
        () => undefined,
      );
    }, RUN_MS);
    return () => clearInterval(timer);
  }, [props.id]);
  return (
    <Page title="Starting" lead="The run's page opens by itself when its first file is written.">
      <JobLog id={props.id} />
    </Page>
  );
}

/** A job as it goes on; `ended` is called once when it has ended. */
export function JobLog(props: { id: string; ended?: (job: Job) => void }): JSX.Element {
  const { value: first, error, reload } = useLoaded(() => api.job(props.id), [props.id]);
  const [job, setJob] = useState<Job>();
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (first === undefined) return;
    setJob(first);
    if (first.state !== "running") {
      props.ended?.(first);
      return;
    }
    // The stream begins with what was printed before.
    let lines: string[] = [];
    return listen(
      api.jobEvents(props.id),
      {
        line: (data) => {
          lines = [...lines, (data as { text: string }).text].slice(-LINES_MAX);
          setJob((old) => old && { ...old, output: lines });
        },
        end: (data) => {
          const ended = data as Job;
          setJob(ended);
          props.ended?.(ended);
        },
      },
      reload,
    );
  }, [first]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [job?.output.length]);
  if (job === undefined) return <Waiting error={error} />;
  return (
    <>
      <CommandBox command={job.command} />
      <p role="status">
        <StateChip state={job.state} /> {job.meaning}
      </p>
      <div class="bar">
        {job.state === "running" && (
          <ActionButton
            label="Stop"
            confirm="Stop it as Ctrl-C would"
            kind="risky"
            action={async () => void (await api.stopJob(job.id))}
          />
        )}
        {job.run !== null && <a href={href("runs", job.run)}>Its run</a>}
        {job.stack !== null && <a href={href("stacks", job.stack)}>Its stack</a>}
      </div>
      <pre ref={box} class="log" tabIndex={0} role="group" aria-label="What it prints">
        {job.output.join("\n")}
      </pre>
    </>
  );
}
