// SPDX-License-Identifier: Apache-2.0
// The server's interface (docs/design/0013-pages.md), as types and calls. The second secret lives in this module and in
// the storage of its tab.

import type {
  JobFacts as Job,
  RunDetailFacts as RunDetail,
  RunListFacts as RunList,
  RunSectionsFacts as RunSections,
  RunSeriesFacts as RunSeries,
  ServerCatalogue as Catalogue,
  SeriesFacts as Series,
  SeriesPageFacts as SeriesPage,
  ServerFacts,
  StackFacts as StackState,
  StackPlanFacts as StackPlan,
} from "../generated/answers";

export type {
  AnswerFacts as RunAnswer,
  JobFacts as Job,
  RunArmFacts as RunArm,
  RunDetailFacts as RunDetail,
  RunFacts as RunSummary,
  RunListFacts as RunList,
  RunProgressFacts as RunProgress,
  RunSectionsFacts as RunSections,
  RunSeriesFacts as RunSeries,
  RunState,
  SecondNews as RunSecond,
  SeriesChangeFacts as SeriesChange,
  SeriesFacts as Series,
  SeriesPageFacts as SeriesPage,
  ServerCatalogue as Catalogue,
  ServerFacts,
  SettingOffer as CatalogueSetting,
  StackFacts as StackState,
  StackOffer as CatalogueStack,
  StackPlanFacts as StackPlan,
} from "../generated/answers";

/** Words of jobs, a line of runs. */
export type Command = string | readonly string[];

export const METRICS = ["iops", "bandwidth", "p50", "p99"] as const;
export type SeriesMetric = (typeof METRICS)[number];
export type SeriesValues = (number | null)[];

/** A campaign, with the keys of its files. */
export interface Campaign {
  [key: string]: CampaignValue;
}
export type CampaignValue = string | number | boolean | string[] | Campaign | Campaign[];

export interface RunRequest {
  campaign: Campaign;
  budget?: string;
}

/** A mistake in a field of a form, by its key. */
export interface FormMistake {
  at: string;
  text: string;
}

/** Annotation of a series by a user. */
export interface SeriesMark {
  kind: string;
  run?: string;
  note?: string;
  days?: number;
}

export interface StackRequest {
  stack: string;
  layers: string[];
  settings: Record<string, string>;
  size: string | null;
  inventory: string | null;
}

/** Refusal by the server, or its absence. */
export class ServerError extends Error {
  constructor(
    readonly status: number,
    text: string,
    readonly hint: string,
    readonly mistakes: readonly FormMistake[] = [],
  ) {
    super(text);
  }

  /** No answer at all. */
  get isGone(): boolean {
    return this.status === 0;
  }
}

const BASE = "api/v1/";
/** Of this origin, port included, and of this tab: the cookie of the session goes to every port of the host. */
const CSRF_KEY = "plimsoll-csrf";
let csrf = stored();

function stored(): string {
  try {
    return sessionStorage.getItem(CSRF_KEY) ?? "";
  } catch {
    return "";
  }
}

function keep(secret: string): void {
  csrf = secret;
  try {
    if (secret) sessionStorage.setItem(CSRF_KEY, secret);
    else sessionStorage.removeItem(CSRF_KEY);
  } catch {
    // Without storage the page asks for the token again when it is loaded anew.
  }
}

async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (csrf) headers["x-plimsoll-csrf"] = csrf;
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  let answer: Response;
  try {
    answer = await fetch(BASE + path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerError(0, "The server does not answer.", "What runs goes on without it. Start plimsoll serve again.");
  }
  if (!answer.ok) throw await refusal(answer);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

async function refusal(answer: Response): Promise<ServerError> {
  try {
    const { error } = (await answer.json()) as { error: { text: string; hint?: string | null; mistakes?: FormMistake[] } };
    return new ServerError(answer.status, error.text, error.hint ?? "", error.mistakes);
  } catch {
    return new ServerError(answer.status, `The server answered ${answer.status} ${answer.statusText}.`, "");
  }
}

const get = <T>(path: string, signal?: AbortSignal): Promise<T> => call<T>("GET", path, undefined, signal);
const post = <T>(path: string, body: unknown = {}): Promise<T> => call<T>("POST", path, body);
const part = encodeURIComponent;

export interface SeriesWindow {
  from: number | null;
  to: number | null;
  points: number;
}

export const api = {
  /** Exchanges the token of the printed address for a session. */
  async logIn(token: string): Promise<void> {
    keep((await post<{ csrf: string }>("session", { token })).csrf);
  },
  /** Takes up the session of this tab; false without one. */
  async resume(): Promise<boolean> {
    if (!csrf) return false;
    try {
      await get("session");
      return true;
    } catch (error) {
      if (!(error instanceof ServerError) || error.status !== 401) throw error;
      keep("");
      return false;
    }
  },
  async logOut(): Promise<void> {
    await call("DELETE", "session");
    keep("");
  },
  server: () => get<ServerFacts>("server"),
  catalogue: () => get<Catalogue>("catalogue"),
  runs: (page: number, find: string) => get<RunList>(`runs?page=${page}&find=${part(find)}`),
  run: (id: string) => get<RunDetail>(`runs/${part(id)}`),
  sections: (id: string) => get<RunSections>(`runs/${part(id)}/sections`),
  series(id: string, metric: SeriesMetric, window: SeriesWindow, signal: AbortSignal): Promise<RunSeries> {
    const query = new URLSearchParams({ metric, points: String(window.points) });
    if (window.from !== null) query.set("from", String(window.from));
    if (window.to !== null) query.set("to", String(window.to));
    return get<RunSeries>(`runs/${part(id)}/series?${query}`, signal);
  },
  seriesList: (text: string) => get<Series[]>(`history/series?text=${part(text)}`),
  seriesPage: (id: string) => get<SeriesPage>(`history/series/${part(id)}`),
  markSeries: (id: string, mark: SeriesMark) => post<SeriesPage>(`history/series/${part(id)}/marks`, mark),
  diff: (base: string, other: string) => get<{ html: string }>(`diff?base=${part(base)}&with=${part(other)}`),
  startRun: (request: RunRequest) => post<Job>("runs", request),
  resumeRun: (id: string) => post<Job>(`runs/${part(id)}/resume`),
  stacks: () => get<StackState[]>("stacks"),
  planStack: (request: StackRequest) => post<StackPlan>("stacks/plan", request),
  raiseStack: (request: StackRequest) => post<Job>("stacks", request),
  changeStack: (name: string, change: string) => post<Job>(`stacks/${part(name)}/${part(change)}`),
  jobs: () => get<Job[]>("jobs"),
  job: (id: string) => get<Job>(`jobs/${part(id)}`),
  stopJob: (id: string) => post<Job>(`jobs/${part(id)}/stop`),
  runEvents: (id: string) => `${BASE}runs/${part(id)}/events`,
  jobEvents: (id: string) => `${BASE}jobs/${part(id)}/events`,
  reportAddress: (id: string) => `${BASE}runs/${part(id)}/report`,
  exportAddress: (id: string, format: string) => `${BASE}runs/${part(id)}/export/${part(format)}`,
};

export const EXPORTS = ["markdown", "csv", "xlsx", "json", "parquet", "hlog", "junit"] as const;
