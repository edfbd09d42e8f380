// SPDX-License-Identifier: Apache-2.0
// All runs of the server's folder: looked through, and two compared.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, type RunList, type RunSummary } from "./api";
import { useLoaded } from "./connection";
import { Page, StateChip, Waiting } from "./parts";
import { go, href } from "./router";
import { when } from "./words";

const EVERY_S = 5;

export function RunsPage(): JSX.Element {
  const [words, setWords] = useState("");
  const [page, setPage] = useState(0);
  const { value: list, error } = useLoaded(() => api.runs(page, words), ["runs", page, words], EVERY_S);
  const [picked, setPicked] = useState<RunSummary[]>([]);
  const pick = (run: RunSummary): void =>
    setPicked((old) =>
      old.some((other) => other.id === run.id)
        ? old.filter((other) => other.id !== run.id)
        : [...old, run].slice(-2),
    );
  return (
    <Page title="Runs" lead="What was measured here, newest first.">
      <div class="bar">
        <input
          type="search"
          aria-label="Find runs by words"
          placeholder="Find"
          value={words}
          onInput={(event) => {
            setWords(event.currentTarget.value);
            setPage(0);
          }}
        />
        <button
          type="button"
          class="plain"
          disabled={picked.length !== 2}
          onClick={() => compare(picked)}
        >
          Compare two
        </button>
        <a class="plain main" href={href("new")}>
          New campaign
        </a>
      </div>
      {list === undefined ? (
        <Waiting error={error} />
      ) : list.runs.length === 0 ? (
        <p class="muted">{words ? "No run has these words." : "No run yet: start one with New campaign."}</p>
      ) : (
        <>
          <RunTable runs={list.runs} picked={picked} pick={pick} />
          {list.pages > 1 && <Pages list={list} page={page} show={setPage} />}
        </>
      )}
    </Page>
  );
}

function Pages(props: { list: RunList; page: number; show: (page: number) => void }): JSX.Element {
  const { list, page, show } = props;
  return (
    <nav class="bar" aria-label="Pages of the list">
      <button type="button" class="plain" disabled={page === 0} onClick={() => show(page - 1)}>
        Newer
      </button>
      <span class="muted">
        Page {page + 1} of {list.pages}, {list.count} runs
      </span>
      <button type="button" class="plain" disabled={page + 1 >= list.pages} onClick={() => show(page + 1)}>
        Older
      </button>
    </nav>
  );
}

function RunTable(props: {
  runs: RunSummary[];
  picked: RunSummary[];
  pick: (run: RunSummary) => void;
}): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Runs">
      <table class="list runs">
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
                  checked={props.picked.some((other) => other.id === run.id)}
                  onChange={() => props.pick(run)}
                />
              </td>
              <td>
                <a href={href("runs", run.id)}>{run.title}</a>
                <small>{run.subtitle}</small>
              </td>
              <td>
                <StateChip state={run.state} />
              </td>
              <td>{run.answer && <p class={`told ${run.answer.tone}`}>{run.answer.text}</p>}</td>
              <td class="n">{when(run.began_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The older of the two is the base. */
function compare(picked: RunSummary[]): void {
  const [older, newer] = [...picked].sort((a, b) => a.began_at.localeCompare(b.began_at));
  if (newer && older) go("diff", older.id, newer.id);
}
