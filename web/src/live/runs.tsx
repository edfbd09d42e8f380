// SPDX-License-Identifier: Apache-2.0
// All runs of the server's folder: looked through, and two compared.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, type RunSummary } from "./api";
import { useLoaded } from "./connection";
import { Page, StateChip, Waiting } from "./parts";
import { go, href } from "./router";
import { when } from "./words";

const EVERY_S = 5;

export function RunsPage(): JSX.Element {
  const { value: runs, error } = useLoaded(api.runs, ["runs"], EVERY_S);
  const [words, setWords] = useState("");
  const [picked, setPicked] = useState<string[]>([]);
  const found = runs?.filter((run) => matches(run, words));
  const pick = (id: string): void =>
    setPicked((old) => (old.includes(id) ? old.filter((other) => other !== id) : [...old, id].slice(-2)));
  return (
    <Page title="Runs" lead="What was measured here, newest first.">
      <div class="bar">
        <input
          type="search"
          aria-label="Find runs by words"
          placeholder="Find"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
        <button
          type="button"
          class="plain"
          disabled={picked.length !== 2}
          onClick={() => compare(runs ?? [], picked)}
        >
          Compare two
        </button>
        <a class="plain main" href={href("new")}>
          New campaign
        </a>
      </div>
      {found === undefined ? (
        <Waiting error={error} />
      ) : found.length === 0 ? (
        <p class="muted">{words ? "No run has these words." : "No run yet: start one with New campaign."}</p>
      ) : (
        <RunTable runs={found} picked={picked} pick={pick} />
      )}
    </Page>
  );
}

function RunTable(props: { runs: RunSummary[]; picked: string[]; pick: (id: string) => void }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Runs">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Compare</span>
            </th>
            <th scope="col">Run</th>
            <th scope="col">State</th>
            <th scope="col">Answer</th>
            <th scope="col">Began</th>
          </tr>
        </thead>
        <tbody>
          {props.runs.map((run) => (
            <tr key={run.id} class="first">
              <td>
                <input
                  type="checkbox"
                  aria-label={`Compare ${run.title}, ${when(run.began_at)}`}
                  checked={props.picked.includes(run.id)}
                  onChange={() => props.pick(run.id)}
                />
              </td>
              <td>
                <a href={href("runs", run.id)}>{run.title}</a>
                <small>{run.subtitle}</small>
              </td>
              <td>
                <StateChip state={run.state} />
              </td>
              <td>
                {run.answer && (
                  <>
                    <span class={run.answer.tone}>{run.answer.mark}</span> {run.answer.text}
                  </>
                )}
              </td>
              <td class="n">{when(run.began_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function matches(run: RunSummary, words: string): boolean {
  const text = [run.id, run.title, run.subtitle, run.state, run.answer?.text ?? ""].join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** The older of the two is the base. */
function compare(runs: RunSummary[], picked: string[]): void {
  const [newer, older] = runs.filter((run) => picked.includes(run.id));
  if (newer && older) go("diff", older.id, newer.id);
}
