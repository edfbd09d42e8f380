// SPDX-License-Identifier: Apache-2.0
// Made from the types of plimsoll-serve by its tests (UPDATE_SNAPSHOTS=1). Not to be edited.

export interface AnswerFacts {
  detail: string;
  text: string;
  tone: string;
}

export interface FaultOffer {
  name: string;
  text: string;
}

export interface JobFacts {
  began_at: string;
  command: string[];
  command_line: string;
  ended_at: string | null;
  exit_code: number | null;
  id: string;
  meaning: string | null;
  output: string[];
  run: string | null;
  stack: string | null;
  state: JobState;
}

export type JobState = "running" | "done" | "failed" | "stopped";

export interface LayerOffer {
  missing: string[];
  name: string;
  ready: boolean;
  settings: SettingOffer[];
  text: string;
}

export interface NamedSeries {
  arm: string;
  high: (number | null)[];
  low: (number | null)[];
  mid: (number | null)[];
  t: number[];
  workload: string;
}

export interface RunArmFacts {
  colour: string;
  control: boolean;
  name: string;
}

export interface RunDetailFacts {
  answer: AnswerFacts | null;
  arms: RunArmFacts[];
  began_at: string;
  command: string;
  id: string;
  job: string | null;
  progress: RunProgressFacts;
  state: RunState;
  subtitle: string;
  title: string;
  workloads: string[];
}

export interface RunFacts {
  answer: AnswerFacts | null;
  began_at: string;
  command: string;
  id: string;
  state: RunState;
  subtitle: string;
  title: string;
}

export interface RunListFacts {
  count: number;
  pages: number;
  runs: RunFacts[];
}

export interface RunProgressFacts {
  began_at: string;
  blocks_planned: number | null;
  ends_in_s: number | null;
  now: TrialNow | null;
  trials_done: number;
  trials_planned: number | null;
}

export interface RunSectionFacts {
  html: string;
  id: string;
  title: string;
}

export interface RunSectionsFacts {
  answer: string;
  sections: RunSectionFacts[];
}

export interface RunSeriesFacts {
  from_s: number;
  full_to_s: number;
  quantity: string;
  read: number;
  series: NamedSeries[];
  to_s: number;
}

export type RunState = "running" | "complete" | "stopped";

export interface SecondNews {
  arm: string;
  bandwidth: number;
  errors: number;
  iops: number;
  p50_s: number | null;
  p99_s: number | null;
  t_s: number;
  workload: string;
}

export interface SeriesChangeFacts {
  acknowledged: string | null;
  around: string[];
  earliest: number;
  first: number;
  found: number;
  high: number;
  latest: number;
  low: number;
  p_value: number;
  ratio: number;
}

export interface SeriesFacts {
  condition: string;
  control: boolean;
  id: number;
  metric: string;
  reference: string;
  system: string;
  workload: string;
}

export interface SeriesPageFacts {
  changes: SeriesChangeFacts[];
  floor: number;
  muted: string | null;
  points: SeriesPointFacts[];
  series: SeriesFacts;
}

export interface SeriesPointFacts {
  acknowledged: string | null;
  began_at: string;
  blocks: number;
  changes: string[];
  high: number | null;
  low: number | null;
  ratio: number;
  revision: string;
  run: string;
  t_s: number;
}

export interface ServerCatalogue {
  conditions: string[];
  faults: FaultOffer[];
  inventories: string[];
  layers: LayerOffer[];
  stacks: StackOffer[];
  targets: string[];
  workloads: WorkloadOffer[];
}

export interface ServerFacts {
  history: boolean;
  host: string;
  runs: string;
  scopes: string[];
  started_at: string;
  user: string;
  version: string;
}

export interface SettingOffer {
  name: string;
  text: string;
  value: string;
}

export interface StackFacts {
  name: string;
  nodes: StackNodeFacts[];
  outputs: string[];
  state: string;
  text: string;
}

export interface StackNodeFacts {
  name: string;
  state: string;
  text: string;
}

export interface StackOffer {
  missing: string[];
  name: string;
  nodes: number;
  ready: boolean;
  settings: SettingOffer[];
  text: string;
}

export interface StackPlanFacts {
  command: string;
  name: string;
  steps: StackStepFacts[];
  text: string;
}

export interface StackStepFacts {
  node: string;
  why: string;
}

export interface TrialNow {
  arm: string;
  block: number;
  phase: string;
  workload: string;
}

export interface WorkloadOffer {
  name: string;
  settings: SettingOffer[];
  text: string;
}
