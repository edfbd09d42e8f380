// SPDX-License-Identifier: Apache-2.0
// A stack, step by step: where, what, how, its plan, and up. The plan changes nothing.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Catalogue, type CatalogueStack, type Job, type StackPlan, type StackRequest } from "./api";
import { useLoaded } from "./connection";
import { JobLog } from "./jobs";
import { ActionButton, Choice, CommandBox, Field, Page, Waiting } from "./parts";
import { href } from "./router";
import { SettingFields, type Settings } from "./settings";
import { withSettings } from "./words";

const STEPS = ["Nodes", "Layout", "Settings", "Tenants and encryption", "Size", "Plan", "Up"] as const;
const PLAN = STEPS.indexOf("Plan");

interface StackDraft {
  inventory: string;
  stack: string;
  settings: Settings;
  layers: Record<string, Settings>;
  size: string;
}

export function WizardPage(): JSX.Element {
  const { value: catalogue, error } = useLoaded(api.catalogue, ["catalogue"]);
  return (
    <Page title="Build a stack" lead="A storage system from maintained programs, to be measured and taken down again.">
      {catalogue ? <Wizard catalogue={catalogue} /> : <Waiting error={error} />}
    </Page>
  );
}

function Wizard(props: { catalogue: Catalogue }): JSX.Element {
  const [step, setStep] = useState(0);
  const [draft, set] = useState<StackDraft>({ inventory: "", stack: "", settings: {}, layers: {}, size: "" });
  const [plan, setPlan] = useState<StackPlan>();
  const [job, setJob] = useState<string>();
  const heading = useRef<HTMLHeadingElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    if (moved.current) heading.current?.focus();
    moved.current = true;
  }, [step]);
  const change = (part: Partial<StackDraft>): void => {
    setPlan(undefined);
    set((old) => ({ ...old, ...part }));
  };
  const stack = props.catalogue.stacks.find((one) => one.name === draft.stack);
  const request = requestOf(draft);
  const makePlan = async (): Promise<void> => {
    setPlan(await api.planStack(request));
    setStep(PLAN);
  };
  const raise = async (): Promise<void> => {
    setJob((await api.raiseStack(request)).id);
    setStep(PLAN + 1);
  };
  return (
    <>
      <ol class="steps">
        {STEPS.map((name, i) => (
          <li key={name} {...(i === step ? { "aria-current": "step" as const } : {})} class={i < step ? "done" : ""}>
            {name}
          </li>
        ))}
      </ol>
      <h2 ref={heading} tabIndex={-1}>
        {step + 1}. {STEPS[step]}
      </h2>
      <Step step={step} draft={draft} change={change} catalogue={props.catalogue} stack={stack} plan={plan} />
      {job !== undefined && step > PLAN && <Up job={job} name={plan?.name ?? null} />}
      <div class="bar">
        {step > 0 && step <= PLAN && (
          <button type="button" class="plain" onClick={() => setStep(step - 1)}>
            Back
          </button>
        )}
        {step < PLAN - 1 && (
          <button
            type="button"
            class="plain main"
            disabled={step === 1 && draft.stack === ""}
            onClick={() => setStep(step + 1)}
          >
            Next
          </button>
        )}
        {step === PLAN - 1 && <ActionButton label="Show the plan" kind="main" action={makePlan} />}
        {step === PLAN && <ActionButton label="Bring it up" kind="main" action={raise} />}
      </div>
    </>
  );
}

interface StepProps {
  step: number;
  draft: StackDraft;
  change: (part: Partial<StackDraft>) => void;
  catalogue: Catalogue;
  stack: CatalogueStack | undefined;
  plan: StackPlan | undefined;
}

function Step(props: StepProps): JSX.Element | null {
  const { draft, change } = props;
  switch (STEPS[props.step]) {
    case "Nodes":
      return <NodesStep {...props} />;
    case "Layout":
      return <LayoutStep {...props} />;
    case "Settings":
      return props.stack && props.stack.settings.length > 0 ? (
        <SettingFields
          title={`Settings of ${props.stack.name}`}
          offered={props.stack.settings}
          values={draft.settings}
          set={(settings) => change({ settings })}
        />
      ) : (
        <p class="muted">It has none.</p>
      );
    case "Tenants and encryption":
      return <LayersStep {...props} />;
    case "Size":
      return (
        <Field
          label="Size"
          help="Of each disk. Empty: as the stack says."
          placeholder="such as 2GiB"
          value={draft.size}
          set={(size) => change({ size })}
        />
      );
    case "Plan":
      return props.plan ? <PlanStep plan={props.plan} /> : null;
    default:
      return null;
  }
}

function NodesStep(props: StepProps): JSX.Element {
  const options = [
    { value: "", label: "This machine", text: "Its own disk, or loop devices and servers on it." },
    ...props.catalogue.inventories.map((path) => ({ value: path, label: path, text: "Machines of an inventory" })),
  ];
  return (
    <Choice
      legend="On which machines?"
      value={props.draft.inventory}
      set={(inventory) => props.change({ inventory })}
      options={options}
    />
  );
}

function LayoutStep(props: StepProps): JSX.Element {
  const missing = (stack: CatalogueStack): string =>
    stack.ready ? "" : ` Missing here: ${stack.missing.join("; ")}`;
  return (
    <Choice
      legend="Which layout?"
      value={props.draft.stack}
      set={(stack) => props.change({ stack, settings: {} })}
      options={props.catalogue.stacks.map((stack) => ({
        value: stack.name,
        label: stack.name,
        text: stack.text + missing(stack),
      }))}
    />
  );
}

function LayersStep(props: StepProps): JSX.Element {
  const { draft, change } = props;
  const flip = (name: string): void => {
    const { [name]: had, ...rest } = draft.layers;
    change({ layers: had === undefined ? { ...rest, [name]: {} } : rest });
  };
  return (
    <fieldset>
      <legend>What lies over it?</legend>
      {props.catalogue.layers.map((layer) => {
        const chosen = draft.layers[layer.name];
        return (
          <div key={layer.name}>
            <label class="choice">
              <input type="checkbox" checked={chosen !== undefined} onChange={() => flip(layer.name)} />
              <span>
                <strong>{layer.name}</strong>
                <small class="muted">{layer.text}</small>
              </span>
            </label>
            {chosen !== undefined && (
              <SettingFields
                title={`Settings of ${layer.name}`}
                offered={layer.settings}
                values={chosen}
                set={(settings) => change({ layers: { ...draft.layers, [layer.name]: settings } })}
                    />
            )}
          </div>
        );
      })}
    </fieldset>
  );
}

function PlanStep(props: { plan: StackPlan }): JSX.Element {
  return (
    <>
      {props.plan.steps.length > 0 ? (
        <ol class="plan">
          {props.plan.steps.map((step, i) => (
            <li key={i}>
              <code>{step.node}</code> {step.why}
            </li>
          ))}
        </ol>
      ) : null}
      <details>
        <summary>The plan in full</summary>
        <pre class="log" tabIndex={0} role="group" aria-label="The plan">
          {props.plan.text}
        </pre>
      </details>
      <p class="muted">The same on a terminal:</p>
      <CommandBox command={props.plan.command} />
    </>
  );
}

function Up(props: { job: string; name: string | null }): JSX.Element {
  const [ended, setEnded] = useState<Job>();
  const name = ended?.stack ?? props.name;
  return (
    <>
      <JobLog id={props.job} ended={setEnded} />
      {ended?.state === "done" && name !== null && (
        <p class="notice good">
          It is up. <a href={href("stacks", name)}>Its state, changes and failover</a>
        </p>
      )}
    </>
  );
}

function requestOf(draft: StackDraft): StackRequest {
  const given = Object.entries(draft.settings).filter(([, value]) => value !== "");
  return {
    stack: draft.stack,
    layers: Object.entries(draft.layers).map(([name, settings]) => withSettings(name, settings)),
    settings: Object.fromEntries(given),
    size: draft.size.trim() === "" ? null : draft.size.trim(),
    inventory: draft.inventory === "" ? null : draft.inventory,
  };
}
