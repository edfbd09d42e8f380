// SPDX-License-Identifier: Apache-2.0
// Parts that several pages share.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { enhance } from "../report/enhance";
import type { Command, ServerError } from "./api";
import { asServerError, reportGone } from "./connection";
import { commandText } from "./words";

/** A page: its heading takes the focus when the page is gone to, so that a screen reader says where it is. */
export function Page(props: { title: string; lead?: string; children: ComponentChildren }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${props.title} – Plimsoll`;
  }, [props.title]);
  useEffect(() => heading.current?.focus(), []);
  return (
    <main id="main">
      <h1 ref={heading} tabIndex={-1}>
        {props.title}
      </h1>
      {props.lead && <p class="subtitle">{props.lead}</p>}
      {props.children}
    </main>
  );
}

/** An error, and what to do. */
export function Refused(props: { error: ServerError | undefined }): JSX.Element | null {
  if (props.error === undefined) return null;
  return (
    <p class="notice bad" role="alert">
      {props.error.message} {props.error.hint}
    </p>
  );
}

export function Waiting(props: { error: ServerError | undefined }): JSX.Element {
  return props.error ? <Refused error={props.error} /> : <p class="muted">Loading …</p>;
}

/** A command that can be copied, by the same script as in reports. */
export function CommandBox(props: { command: Command }): JSX.Element {
  return <TextBox label="Command" text={commandText(props.command)} />;
}

/** Text to be copied. */
export function TextBox(props: { label: string; text: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const { label, text } = props;
  useEffect(() => {
    const pre = document.createElement("pre");
    pre.className = "command";
    pre.tabIndex = 0;
    pre.setAttribute("role", "group");
    pre.setAttribute("aria-label", label);
    pre.textContent = text;
    box.current?.replaceChildren(pre);
    if (box.current) enhance(box.current);
  }, [text]);
  return <div ref={box} />;
}

const TONES: Record<string, string> = {
  running: "same",
  complete: "good",
  done: "good",
  up: "good",
  healthy: "good",
  stopped: "care",
  degraded: "care",
  rebuilding: "care",
  failed: "bad",
};

export function StateChip(props: { state: string; tone?: string }): JSX.Element {
  return <span class={`chip ${props.tone ?? TONES[props.state] ?? "muted"}`}>{props.state}</span>;
}

/** A button whose action may be refused; it waits for the answer. */
export function ActionButton(props: {
  label: string;
  action: () => Promise<void>;
  kind?: "main" | "risky";
  /** Asked before the action; a second press confirms. */
  confirm?: string;
  disabled?: boolean;
}): JSX.Element {
  const [busy, setBusy] = useState(false);
  const [sure, setSure] = useState(false);
  const [error, setError] = useState<ServerError>();
  const press = async (): Promise<void> => {
    if (props.confirm !== undefined && !sure) return setSure(true);
    setBusy(true);
    setError(undefined);
    try {
      await props.action();
    } catch (caught) {
      const refused = asServerError(caught);
      if (refused.isGone) reportGone();
      setError(refused);
    }
    setBusy(false);
    setSure(false);
  };
  return (
    <>
      <button
        type="button"
        class={`plain ${props.kind ?? ""}`}
        disabled={busy || props.disabled === true}
        onClick={() => void press()}
        onBlur={() => setSure(false)}
      >
        {sure ? props.confirm : props.label}
      </button>
      <Refused error={error} />
    </>
  );
}

/** A labelled field with help and, where it is wrong, what is wrong. */
export function Field(props: {
  label: string;
  value: string;
  set: (value: string) => void;
  help?: string;
  error?: string | undefined;
  list?: readonly string[];
  placeholder?: string;
  required?: boolean;
}): JSX.Element {
  const id = useId();
  const described = [props.help ? `${id}-help` : "", props.error ? `${id}-error` : ""].join(" ").trim();
  return (
    <div class="field">
      <label for={id}>
        {props.label}
        {props.required && " (required)"}
      </label>
      <input
        id={id}
        type="text"
        autocomplete="off"
        spellcheck={false}
        value={props.value}
        placeholder={props.placeholder ?? ""}
        required={props.required ?? false}
        {...(props.list ? { list: `${id}-list` } : {})}
        {...(described ? { "aria-describedby": described } : {})}
        aria-invalid={props.error !== undefined}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
      {props.list && (
        <datalist id={`${id}-list`}>
          {props.list.map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
      {props.help && (
        <small id={`${id}-help`} class="muted">
          {props.help}
        </small>
      )}
      {props.error && (
        <small id={`${id}-error`} class="bad">
          {props.error}
        </small>
      )}
    </div>
  );
}

/** One of several, all in sight. */
export function Choice<T extends string>(props: {
  legend: string;
  value: T;
  set: (value: T) => void;
  options: readonly { value: T; label: string; text?: string; disabled?: boolean }[];
}): JSX.Element {
  const name = useId();
  return (
    <fieldset>
      <legend>{props.legend}</legend>
      {props.options.map((option) => (
        <label key={option.value} class="choice">
          <input
            type="radio"
            name={name}
            value={option.value}
            checked={option.value === props.value}
            disabled={option.disabled === true}
            onChange={() => props.set(option.value)}
          />
          <span>
            <strong>{option.label}</strong>
            {option.text && <small class="muted">{option.text}</small>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

export function Select<T extends string>(props: {
  label: string;
  value: T;
  set: (value: T) => void;
  options: readonly { value: T; label: string }[];
}): JSX.Element {
  const id = useId();
  return (
    <div class="field inline">
      <label for={id}>{props.label}</label>
      <select id={id} value={props.value} onChange={(event) => props.set(event.currentTarget.value as T)}>
        {props.options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </div>
  );
}
