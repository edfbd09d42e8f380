// SPDX-License-Identifier: Apache-2.0
// Whether the server is there, and streams of its events that come back after an interruption.
import { useEffect, useState } from "preact/hooks";
import { api, ServerError } from "./api";

const BACK_OFF_S = [1, 2, 4, 8, 15, 30] as const;

type Listener = (gone: boolean) => void;
const listeners = new Set<Listener>();
let gone = false;
let asking: ReturnType<typeof setTimeout> | undefined;

/** Says that the server did not answer, and asks until it does. */
export function reportGone(): void {
  if (gone) return;
  setGone(true);
  ask(0);
}

function ask(tries: number): void {
  clearTimeout(asking);
  asking = setTimeout(() => {
    api.server().then(
      () => setGone(false),
      (error: unknown) => (error instanceof ServerError && !error.isGone ? setGone(false) : ask(tries + 1)),
    );
  }, waitMs(tries));
}

function setGone(now: boolean): void {
  gone = now;
  for (const listener of listeners) listener(now);
}

function waitMs(tries: number): number {
  return 1000 * (BACK_OFF_S[Math.min(tries, BACK_OFF_S.length - 1)] ?? 30);
}

/** Whether the server does not answer. */
export function useGone(): boolean {
  const [now, set] = useState(gone);
  useEffect(() => {
    listeners.add(set);
    return () => void listeners.delete(set);
  }, []);
  return now;
}

export type Handlers = Record<string, (data: unknown) => void>;

/** Listens to a stream until the returned function is called. `opened` runs at each new beginning after a break. */
export function listen(address: string, handlers: Handlers, again: () => void): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let tries = 0;
  let ended = false;
  const open = (): void => {
    source = new EventSource(address);
    source.onopen = () => {
      if (tries > 0) again();
      tries = 0;
    };
    source.onerror = () => {
      source?.close();
      if (ended) return;
      if (tries > 0) reportGone();
      timer = setTimeout(open, waitMs(tries));
      tries += 1;
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        handle(JSON.parse(event.data));
        if (name === "end") stop();
      });
    }
  };
  const stop = (): void => {
    ended = true;
    clearTimeout(timer);
    source?.close();
  };
  open();
  return stop;
}

export interface Loaded<T> {
  value: T | undefined;
  error: ServerError | undefined;
  reload: () => void;
}

/** Answer of a request, asked again when `keys` change, on `reload`, every `every_s` and when the server is back. */
export function useLoaded<T>(request: () => Promise<T>, keys: readonly unknown[], every_s = 0): Loaded<T> {
  const [state, set] = useState<{ value?: T; error?: ServerError; keys: string }>({ keys: "" });
  const [count, setCount] = useState(0);
  const away = useGone();
  const wanted = JSON.stringify(keys);
  useEffect(() => {
    let live = true;
    request().then(
      (value) => live && set({ value, keys: wanted }),
      (error: unknown) => {
        if (!live) return;
        const refused = asServerError(error);
        if (refused.isGone) reportGone();
        set((old) => ({ ...(old.keys === wanted ? old : { keys: wanted }), error: refused }));
      },
    );
    return () => {
      live = false;
    };
  }, [wanted, count, away]);
  useEffect(() => {
    if (every_s === 0) return;
    const timer = setInterval(() => {
      if (!document.hidden) setCount((n) => n + 1);
    }, every_s * 1000);
    return () => clearInterval(timer);
  }, [every_s]);
  const fresh = state.keys === wanted;
  return {
    value: fresh ? state.value : undefined,
    error: fresh ? state.error : undefined,
    reload: () => setCount((n) => n + 1),
  };
}

/** Any failure as one that has words for the user. */
export function asServerError(error: unknown): ServerError {
  if (error instanceof ServerError) return error;
  return new ServerError(-1, `This page failed: ${String(error)}`, "Load it again.");
}
