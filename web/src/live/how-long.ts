// SPDX-License-Identifier: Apache-2.0
// How long a run takes, as far as its form tells: the sum that the command itself says before the first trial.
import type { Campaign, RunRequest } from "./api";
import { secondsOf, span } from "./words";

/** Where nothing is typed, as the command has it (docs/campaigns.md, docs/loadline.md). */
const BLOCKS = 5;
const TRIAL = "10s";
const HOLD = "10m";
/** Holds after which a search ends. */
const HOLDS_MAX = 24;
/** What a trial takes beside its measured part. */
const BESIDE_S = 1.5;

/** A sentence; empty while the form lacks what it depends on. */
export function howLong(request: RunRequest): string {
  const { campaign } = request;
  const targets = (campaign.target as Campaign[]).map((one) => String(one.target));
  const workloads = (campaign.workload as Campaign[]).length;
  const limit_s = secondsOf(request.budget ?? "");
  const limited = limit_s === undefined ? "" : `At most about ${span(limit_s)}: no trial begins later.`;
  const isSimulated = (target: string): boolean => target === "sim" || target.startsWith("sim(");
  const isFailover = campaign.faults !== undefined;
  if (targets.length === 0 || (workloads === 0 && !isFailover)) return "";
  // A pilot, and the recovery of servers, are not known beforehand.
  if (isFailover || campaign.design !== undefined || campaign.under !== undefined) {
    return limited || "Only the run shows how long it takes. “Time for all of it” sets a limit.";
  }
  const isSearch = campaign.load_line !== undefined;
  const length = String((campaign.trial as Campaign | undefined)?.for ?? (isSearch ? HOLD : TRIAL));
  const length_s = secondsOf(length);
  const blocks = Number(campaign.blocks ?? BLOCKS);
  if (length_s === undefined || !Number.isInteger(blocks)) return limited;
  if (isSearch) {
    const real = targets.filter((target) => !isSimulated(target)).length;
    const most_s = real * workloads * HOLDS_MAX * length_s;
    if (real === 0 || (limit_s !== undefined && limit_s < most_s)) return limited;
    return `At most about ${span(most_s)}: ${HOLDS_MAX} times ${length} for each system and workload. Most searches need less.`;
  }
  const arms = campaign.control === true ? [...targets, ...targets.slice(0, 1)] : targets;
  const simulated = arms.filter(isSimulated).length;
  const trials = blocks * workloads;
  const real_s = trials * (arms.length - simulated) * (length_s + BESIDE_S);
  if (limit_s !== undefined && limit_s < real_s) return limited;
  const parts = [
    real_s > 0 ? span(real_s) : "",
    simulated > 0 ? `${span(trials * simulated * length_s)} of virtual time` : "",
  ];
  const all = `About ${parts.filter(Boolean).join(" and ")}: ${trials * arms.length} trials of ${length}.`;
  return `${all} A workload that ends by itself takes as long as its work.`;
}
