// SPDX-License-Identifier: Apache-2.0
// A new campaign. The form knows what the catalogue offers and nothing else: it makes a campaign, as files have it, and
// the server says what is wrong with which key.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, type CampaignValue, type Catalogue, type RunRequest, type ServerError } from "./api";
import { campaignOf, fileOf, put, type RunKind } from "./campaign-file";
import { useLoaded } from "./connection";
import { howLong } from "./how-long";
import { ActionButton, Choice, Field, Page, TextBox, Waiting } from "./parts";
import { go } from "./router";
import { SettingFields, type Settings } from "./settings";
import { workloadWith } from "./words";

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
  example: string;
  kinds: readonly RunKind[];
  required?: boolean;
  /** Its key in the campaign: tables before the dot. */
  key: string;
  /** Of the text that was typed. */
  value: (text: string) => CampaignValue;
}

const word = (text: string): CampaignValue => text;
const words = (text: string): CampaignValue => text.split(",").map((value) => value.trim());
/** Text that is no number is sent as it is: the server says what is expected. */
const number = (text: string): CampaignValue => (Number.isFinite(Number(text)) ? Number(text) : text);
const share = (text: string): CampaignValue => {
  const percent = /^([\d.]+)\s*%$/.exec(text)?.[1];
  return percent === undefined ? number(text) : Number(percent) / 100;
};

/** No part of a campaign: another attempt may have another one. */
const BUDGET = "budget";
const ALL: readonly RunKind[] = ["compare", "run", "loadline", "failover"];
const OPTIONS: readonly CampaignOption[] = [
  { name: "length", key: "trial.for", value: word, label: "Length of a trial", help: "Empty: 10s", example: "30s", kinds: ["compare", "run"] },
  { name: "length", key: "trial.for", value: word, label: "How long a load must be held", help: "Empty: 10m", example: "2m", kinds: ["loadline"] },
  { name: "length", key: "trial.for", value: word, label: "Length of a trial", help: "Empty: 22s longer than the fault lasts", example: "1m", kinds: ["failover"] },
  { name: "blocks", key: "blocks", value: number, label: "Blocks", help: "Rounds in which every system has its turn. Empty: 5", example: "10", kinds: ["compare"] },
  { name: "budget", key: BUDGET, value: word, label: "Time for all of it", help: "No trial begins later", example: "1h", kinds: ALL },
  { name: "effect", key: "design.effect", value: share, label: "Difference worth finding", help: "Plans length and number of trials", example: "5%", kinds: ["compare"] },
  { name: "slo", key: "load_line.limits", value: words, label: "Limits", help: "A load is carried within all of them", example: "p99 < 20ms, errors < 0.1%", kinds: ["loadline"], required: true },
  { name: "under", key: "under", value: words, label: "Conditions", help: "Of stacks, each in trials of its own", example: "healthy, degraded", kinds: ["compare", "loadline"] },
  { name: "fault", key: "faults.inject", value: words, label: "Fault", help: "What is done to the stack. Empty: kill", example: "pause", kinds: ["failover"] },
  { name: "repeat", key: "blocks", value: number, label: "Times", help: "How often it is done. Empty: 10", example: "20", kinds: ["failover"] },
  { name: "seed", key: "seed", value: number, label: "Seed", help: "Makes orders and data repeatable", example: "7", kinds: ALL },
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

/** An example in an empty field, told apart from what is so by default. */
const such = (example: string): string => `such as ${example}`;
/** Targets that every server takes. */
const TARGETS = ["sim(flash)", "sim(disk)", "null"] as const;
const STACK = "raid1";

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
  const wrong = (key: string): string | undefined => mistakeAt(key, refused);
  return (
    <form class="form" onSubmit={(event) => event.preventDefault()}>
      <Choice legend="What for?" value={draft.kind} set={(kind) => change(() => ({ kind }))} options={KINDS} />
      <Targets draft={draft} change={change} catalogue={props.catalogue} wrong={wrong} />
      <Workloads draft={draft} change={change} catalogue={props.catalogue} wrong={wrong} />
      <Options draft={draft} change={change} catalogue={props.catalogue} wrong={wrong} />
      <h2>The campaign</h2>
      <p class="note">The same as a file, for plimsoll run FILE.toml.</p>
      <TextBox label="Campaign" text={fileOf(request.campaign)} />
      <p class="note">{howLong(request)}</p>
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
  /** The mistake in the field of this key. */
  wrong: (key: string) => string | undefined;
}

function Targets(props: PartProps): JSX.Element {
  const { draft, change } = props;
  const stacks = props.catalogue.stacks.map((stack) => stack.name);
  const isFailover = draft.kind === "failover";
  const offered = isFailover ? stacks : [...props.catalogue.targets, ...stacks];
  const set = (i: number, value: string): void => change((draft) => ({ targets: draft.targets.with(i, value) }));
  return (
    <fieldset>
      <legend>{isFailover ? "Stack" : "Targets"}</legend>
      <p class="note">
        {isFailover
          ? "A stack by name: faults need servers that plimsoll manages."
          : "Directories, devices, exports, stacks by name, or simulated devices such as sim(flash)."}
      </p>
      {targetsOf(draft).map((target, i) => (
        <div class="row" key={i}>
          <Field
            label={isFailover ? "Name of the stack" : i === 0 && draft.kind === "compare" ? "Base" : `Target ${i + 1}`}
            value={target}
            placeholder={such(isFailover ? STACK : (TARGETS[i] ?? "null"))}
            set={(value) => set(i, value)}
            list={offered}
            error={props.wrong(`target[${given(draft.targets.slice(0, i)).length}]`)}
          />
          {!isFailover && draft.targets.length > 1 && (
            <Remove label={`Remove target ${i + 1}`} act={() => change((draft) => ({ targets: draft.targets.toSpliced(i, 1) }))} />
          )}
        </div>
      ))}
      {!isFailover && (
        <button type="button" class="plain" onClick={() => change((draft) => ({ targets: [...draft.targets, ""] }))}>
          Add a target
        </button>
      )}
    </fieldset>
  );
}

function Workloads(props: PartProps): JSX.Element {
  const { draft, change } = props;
  const known = props.catalogue.workloads;
  const wrong = (i: number): string | undefined =>
    props.wrong(`workload[${draft.workloads.slice(0, i).filter((one) => one.name.trim()).length}]`);
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
                placeholder={such("randread")}
                set={(name) => set(i, { name, settings: {} })}
                list={known.map((one) => one.name)}
                help={found?.text ?? ""}
                error={wrong(i)}
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
            placeholder={such(option.example)}
            required={option.required ?? false}
            value={draft.options[option.name] ?? ""}
            set={(value) => change((draft) => ({ options: { ...draft.options, [option.name]: value } }))}
            error={props.wrong(option.key)}
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
  const campaign = campaignOf(draft.kind);
  for (const option of OPTIONS.filter((option) => option.kinds.includes(draft.kind))) {
    const text = draft.options[option.name]?.trim();
    if (text && option.key !== BUDGET) put(campaign, option.key, option.value(text));
  }
  const workloads = draft.workloads.filter((workload) => workload.name.trim());
  campaign.target = given(targetsOf(draft)).map((target) => ({ target }));
  campaign.workload = workloads.map(({ name, settings }) => ({ workload: workloadWith(name.trim(), settings) }));
  const budget = draft.options[BUDGET]?.trim();
  return budget ? { campaign, budget } : { campaign };
}

/** Of a failover there is one. */
function targetsOf(draft: CampaignDraft): string[] {
  return draft.kind === "failover" ? draft.targets.slice(0, 1) : draft.targets;
}

function given(texts: readonly string[]): string[] {
  return texts.map((text) => text.trim()).filter(Boolean);
}

/** Mistake in the field of this key, or in a part of it. */
function mistakeAt(key: string, refused: ServerError | undefined): string | undefined {
  const isIt = (at: string): boolean =>
    at === key || at.startsWith(`${key}[`) || at.startsWith(`${key}.`) || (at !== "" && key.startsWith(`${at}.`));
  return refused?.mistakes.find((mistake) => isIt(mistake.at))?.text;
}
