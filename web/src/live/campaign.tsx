// SPDX-License-Identifier: Apache-2.0
// A new campaign. The form knows what the catalogue offers and nothing else: the server starts the same program with
// the same arguments that a person would type, and says what is wrong with them.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, type Catalogue, type RunKind, type RunRequest, type ServerError } from "./api";
import { useLoaded } from "./connection";
import { ActionButton, Choice, CommandBox, Field, Page, Waiting } from "./parts";
import { go } from "./router";
import { SettingFields, type Settings } from "./settings";
import { commandText, workloadWith } from "./words";

const KINDS: readonly { value: RunKind; label: string; text: string }[] = [
  { value: "compare", label: "Compare", text: "Which of several systems is better, and how sure is that?" },
  { value: "run", label: "Measure", text: "How does one system do?" },
  { value: "loadline", label: "Load line", text: "How much of this load does each system carry within its limits?" },
  { value: "failover", label: "Failover", text: "How long does a stack not answer when a part of it fails?" },
];

interface CampaignOption {
  name: string;
  label: string;
  help: string;
  kinds: readonly RunKind[];
  /** Name in the program, where it is not the same. */
  flag?: string;
  /** Commas part several values: the option then stands once with all, or once for each. */
  several?: "once" | "each";
}

const ALL: readonly RunKind[] = ["compare", "run", "loadline", "failover"];
/** The server knows which of these the program takes for which kind, and says so; this list is what is offered. */
const OPTIONS: readonly CampaignOption[] = [
  { name: "length", flag: "for", label: "Length of a trial", help: "30s, 2m", kinds: ALL },
  { name: "blocks", label: "Blocks", help: "Rounds in which every system has its turn", kinds: ["compare"] },
  { name: "budget", label: "Time for all of it", help: "1h: as much as fits", kinds: ALL },
  { name: "effect", label: "Difference worth finding", help: "5%: plans length and number of trials", kinds: ["compare"] },
  { name: "slo", label: "Limits", help: "p99 < 20ms, errors < 0.1%", kinds: ["loadline"], several: "each" },
  { name: "under", label: "Conditions", help: "healthy, degraded", kinds: ["compare", "loadline"], several: "once" },
  { name: "fault", label: "Fault", help: "What is done to the stack", kinds: ["failover"] },
  { name: "repeat", label: "Times", help: "How often it is done", kinds: ["failover"] },
  { name: "seed", label: "Seed", help: "Makes orders and data repeatable", kinds: ALL },
];

interface ChosenWorkload {
  name: string;
  settings: Settings;
}

interface CampaignDraft {
  kind: RunKind;
  targets: string[];
  workloads: ChosenWorkload[];
  options: Record<string, string>;
}

const EMPTY: CampaignDraft = {
  kind: "compare",
  targets: ["", ""],
  workloads: [{ name: "", settings: {} }],
  options: {},
};

export function CampaignPage(): JSX.Element {
  const { value: catalogue, error } = useLoaded(api.catalogue, ["catalogue"]);
  return (
    <Page title="New campaign" lead="What is to be measured, where, and for how long.">
      {catalogue ? <Form catalogue={catalogue} /> : <Waiting error={error} />}
    </Page>
  );
}

function Form(props: { catalogue: Catalogue }): JSX.Element {
  const [draft, set] = useState<CampaignDraft>(EMPTY);
  const [refused, setRefused] = useState<ServerError>();
  // Of the draft as it is then, not as it was drawn: keys may come faster than drawings.
  const change: ChangeDraft = (edit) => {
    setRefused(undefined);
    set((old) => ({ ...old, ...edit(old) }));
  };
  const request = requestOf(draft);
  const start = async (): Promise<void> => {
    try {
      const job = await api.startRun(request);
      if (job.run !== null) go("runs", job.run);
      else go("starting", job.id);
    } catch (error) {
      setRefused(error as ServerError);
      throw error;
    }
  };
  const wrong = (value: string): string | undefined => saidOf(value, refused);
  return (
    <form class="form" onSubmit={(event) => event.preventDefault()}>
      <Choice legend="What for?" value={draft.kind} set={(kind) => change(() => ({ kind }))} options={KINDS} />
      <Targets draft={draft} change={change} catalogue={props.catalogue} wrong={wrong} />
      <Workloads draft={draft} change={change} catalogue={props.catalogue} wrong={wrong} />
      <Options draft={draft} change={change} catalogue={props.catalogue} wrong={wrong} />
      <h2>The command</h2>
      <CommandBox command={previewOf(request)} />
      <div class="bar">
        <ActionButton label="Start" kind="main" action={start} />
      </div>
    </form>
  );
}

type ChangeDraft = (edit: (draft: CampaignDraft) => Partial<CampaignDraft>) => void;

interface PartProps {
  draft: CampaignDraft;
  change: ChangeDraft;
  catalogue: Catalogue;
  wrong: (value: string) => string | undefined;
}

function Targets(props: PartProps): JSX.Element {
  const { draft, change } = props;
  const offered = [...props.catalogue.targets, ...props.catalogue.stacks.map((stack) => stack.name)];
  const set = (i: number, value: string): void => change((draft) => ({ targets: draft.targets.with(i, value) }));
  return (
    <fieldset>
      <legend>Targets</legend>
      <p class="note">Directories, devices, exports, stacks by name, or simulated devices such as sim(ssd).</p>
      {draft.targets.map((target, i) => (
        <div class="row" key={i}>
          <Field
            label={i === 0 && draft.kind === "compare" ? "Base" : `Target ${i + 1}`}
            value={target}
            set={(value) => set(i, value)}
            list={offered}
            error={props.wrong(target)}
          />
          {draft.targets.length > 1 && (
            <Remove label={`Remove target ${i + 1}`} act={() => change((draft) => ({ targets: draft.targets.toSpliced(i, 1) }))} />
          )}
        </div>
      ))}
      <button type="button" class="plain" onClick={() => change((draft) => ({ targets: [...draft.targets, ""] }))}>
        Add a target
      </button>
    </fieldset>
  );
}

function Workloads(props: PartProps): JSX.Element {
  const { draft, change } = props;
  const known = props.catalogue.workloads;
  const set = (i: number, workload: ChosenWorkload): void => change((draft) => ({ workloads: draft.workloads.with(i, workload) }));
  return (
    <fieldset>
      <legend>Workloads</legend>
      <p class="note">
        By name, with settings below. {draft.kind === "failover" && "None: sessions write and read by themselves."}
      </p>
      {draft.workloads.map((workload, i) => {
        const found = known.find((one) => one.name === workload.name);
        return (
          <div key={i}>
            <div class="row">
              <Field
                label={`Workload ${i + 1}`}
                value={workload.name}
                set={(name) => set(i, { name, settings: {} })}
                list={known.map((one) => one.name)}
                help={found?.text ?? ""}
                error={props.wrong(workload.name)}
              />
              {draft.workloads.length > 1 && (
                <Remove
                  label={`Remove workload ${i + 1}`}
                  act={() => change((draft) => ({ workloads: draft.workloads.toSpliced(i, 1) }))}
                />
              )}
            </div>
            {found && (
              <SettingFields
                title={`Settings of ${found.name}`}
                offered={found.settings}
                values={workload.settings}
                set={(settings) => set(i, { ...workload, settings })}
                wrong={props.wrong}
              />
            )}
          </div>
        );
      })}
      <button
        type="button"
        class="plain"
        onClick={() => change((draft) => ({ workloads: [...draft.workloads, { name: "", settings: {} }] }))}
      >
        Add a workload
      </button>
    </fieldset>
  );
}

function Options(props: PartProps): JSX.Element {
  const { draft, change } = props;
  const faults = props.catalogue.faults.map((fault) => fault.name);
  return (
    <fieldset>
      <legend>How</legend>
      <div class="fields">
        {OPTIONS.filter((option) => option.kinds.includes(draft.kind)).map((option) => (
          <Field
            key={option.name}
            label={option.label}
            help={option.help}
            value={draft.options[option.name] ?? ""}
            set={(value) => change((draft) => ({ options: { ...draft.options, [option.name]: value } }))}
            error={props.wrong(draft.options[option.name] ?? "")}
            {...(option.name === "fault" ? { list: faults } : {})}
          />
        ))}
      </div>
    </fieldset>
  );
}

function Remove(props: { label: string; act: () => void }): JSX.Element {
  return (
    <button type="button" class="plain" aria-label={props.label} onClick={props.act}>
      Remove
    </button>
  );
}

function requestOf(draft: CampaignDraft): RunRequest {
  const given = OPTIONS.filter((option) => option.kinds.includes(draft.kind) && draft.options[option.name]?.trim());
  const workloads = draft.workloads.filter((workload) => workload.name.trim());
  const values = (option: CampaignOption): string[] => {
    const text = draft.options[option.name] ?? "";
    return option.several ? text.split(",").map((value) => value.trim()) : [text.trim()];
  };
  return {
    kind: draft.kind,
    targets: draft.targets.map((target) => target.trim()).filter(Boolean),
    workloads: workloads.map((workload) => workloadWith(workload.name.trim(), workload.settings)),
    options: Object.fromEntries(given.map((option) => [option.name, values(option)])),
  };
}

/** Command line that will be started; the job shows the one that was. */
function previewOf(request: RunRequest): string {
  const options = Object.entries(request.options).flatMap(([name, values]) => flagsOf(name, values));
  const { kind, targets, workloads } = request;
  if (kind === "run") return commandText(["plimsoll", kind, ...workloads, ...targets, ...options]);
  return commandText(["plimsoll", kind, ...targets, ...workloads.flatMap((one) => ["-w", one]), ...options]);
}

function flagsOf(name: string, values: string[]): string[] {
  const option = OPTIONS.find((one) => one.name === name);
  const flag = `--${option?.flag ?? name}`;
  return option?.several === "each" ? values.map((value) => `${flag}=${value}`) : [`${flag}=${values.join(",")}`];
}

/** Error about a field: errors quote the value they are about. */
export function saidOf(value: string, refused: ServerError | undefined): string | undefined {
  const text = value.trim();
  if (refused === undefined || text === "") return undefined;
  return refused.message.includes(`'${text}'`) ? refused.message : undefined;
}
