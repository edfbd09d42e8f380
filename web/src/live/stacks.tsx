// SPDX-License-Identifier: Apache-2.0
// Stacks that are up: their state, what can be changed, and failing them over under load.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, type StackState } from "./api";
import { campaignOf, put } from "./campaign-file";
import { useLoaded } from "./connection";
import { JobLog } from "./jobs";
import { ActionButton, Page, Select, StateChip, Waiting } from "./parts";
import { go, href } from "./router";

const EVERY_S = 4;

const CHANGES = [
  { name: "degrade", text: "takes one part away, as a failed disk would" },
  { name: "rebuild", text: "brings it back and copies what it missed" },
  { name: "scrub", text: "reads everything and repairs what differs" },
  { name: "grow", text: "adds room" },
  { name: "switch", text: "moves the service to another node" },
  { name: "snapshot", text: "keeps a copy of this moment" },
] as const;

export function StacksPage(): JSX.Element {
  const { value: stacks, error } = useLoaded(api.stacks, ["stacks"], EVERY_S);
  return (
    <Page title="Stacks" lead="Storage systems that plimsoll built here and that are up.">
      <div class="bar">
        <a class="plain main" href={href("build")}>
          Build a stack
        </a>
      </div>
      {stacks === undefined ? (
        <Waiting error={error} />
      ) : stacks.length === 0 ? (
        <p class="muted">None is up.</p>
      ) : (
        <ul class="cards">
          {stacks.map((stack) => (
            <li key={stack.name}>
              <a href={href("stacks", stack.name)}>{stack.name}</a> <StateChip state={stack.state} />
              <p class="muted lines">{stack.text}</p>
            </li>
          ))}
        </ul>
      )}
    </Page>
  );
}

export function StackPage(props: { name: string }): JSX.Element {
  const { value: stacks, error, reload } = useLoaded(api.stacks, ["stacks"], EVERY_S);
  const [job, setJob] = useState<string>();
  const stack = stacks?.find((one) => one.name === props.name);
  const change = async (name: string): Promise<void> => setJob((await api.changeStack(props.name, name)).id);
  return (
    <Page title={`Stack ${props.name}`}>
      {stack ? (
        <State stack={stack} />
      ) : stacks ? (
        <p class="notice">
          No stack of this name is up. <a href={href("build")}>Build a stack</a>
        </p>
      ) : (
        <Waiting error={error} />
      )}
      {job !== undefined && (
        <section aria-label="What is being done">
          <h2>What is being done</h2>
          <JobLog id={job} ended={reload} />
        </section>
      )}
      {stack && <Changes change={change} />}
      {stack && <FailOver name={stack.name} />}
      {stack && (
        <section>
          <h2>Take it down</h2>
          <p class="muted">Everything that was made for it is undone, from the journal.</p>
          <ActionButton
            label="Take it down"
            confirm="Take it down: its data are lost"
            kind="risky"
            action={() => change("down")}
          />
        </section>
      )}
    </Page>
  );
}

function State(props: { stack: StackState }): JSX.Element {
  const { stack } = props;
  return (
    <>
      <p class="lines">
        <StateChip state={stack.state} /> {stack.text}
      </p>
      <dl>
        {stack.outputs.length > 0 && (
          <>
            <dt>Offers</dt>
            <dd>{stack.outputs.join(", ")}</dd>
          </>
        )}
      </dl>
      {stack.nodes.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Nodes">
          <table>
            <caption>Nodes</caption>
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col">State</th>
                <th scope="col">What it says</th>
              </tr>
            </thead>
            <tbody>
              {stack.nodes.map((node) => (
                <tr key={node.name} class="first">
                  <td>{node.name}</td>
                  <td>{node.state}</td>
                  <td>{node.text}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Changes(props: { change: (name: string) => Promise<void> }): JSX.Element {
  return (
    <section>
      <h2>Change it</h2>
      <ul class="acts">
        {CHANGES.map((one) => (
          <li key={one.name}>
            <ActionButton label={one.name} action={() => props.change(one.name)} />
            <span class="muted">{one.text}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function FailOver(props: { name: string }): JSX.Element {
  const { value: catalogue } = useLoaded(api.catalogue, ["catalogue"]);
  const [fault, setFault] = useState("");
  const [times, setTimes] = useState("1");
  const start = async (): Promise<void> => {
    const campaign = campaignOf("failover");
    campaign.target = [{ target: props.name }];
    put(campaign, "blocks", Number(times));
    if (fault !== "") put(campaign, "faults.inject", [fault]);
    const job = await api.startRun({ campaign });
    if (job.run !== null) go("runs", job.run);
    else go("starting", job.id);
  };
  const faults = catalogue?.faults ?? [];
  return (
    <section>
      <h2>Fail it over under load</h2>
      <p class="muted">
        Sessions write and read while a part is hurt: how long did it not answer, and was anything lost?
        {fault !== "" && ` ${fault}: ${faults.find((one) => one.name === fault)?.text ?? ""}`}
      </p>
      <div class="bar">
        <Select
          label="Fault"
          value={fault}
          set={setFault}
          options={[{ value: "", label: "as usual" }, ...faults.map((one) => ({ value: one.name, label: one.name }))]}
        />
        <Select
          label="Times"
          value={times}
          set={setTimes}
          options={["1", "3", "5", "10"].map((value) => ({ value, label: value }))}
        />
        <ActionButton label="Fail it over" kind="risky" action={start} />
      </div>
    </section>
  );
}
