// SPDX-License-Identifier: Apache-2.0
// A campaign with the keys of its files (docs/campaigns.md), made of what a form has.
import type { Campaign, CampaignValue } from "./api";

export type RunKind = "compare" | "run" | "loadline" | "failover";

/** What a kind has before anything is typed, as its command has it. */
const BEFORE: Record<RunKind, Campaign> = {
  compare: { control: true },
  run: { control: false, blocks: 1 },
  loadline: { control: false, load_line: {} },
  failover: { control: false, blocks: 10, faults: { inject: ["kill"], rate: 100 } },
};

export function campaignOf(kind: RunKind): Campaign {
  return { format: "1.2", order: "random", ...structuredClone(BEFORE[kind]) };
}

/** Sets a value; a key with a dot is in a table. */
export function put(campaign: Campaign, key: string, value: CampaignValue): void {
  const [table, name] = key.split(".") as [string, string?];
  if (name === undefined) campaign[table] = value;
  else campaign[table] = { ...(campaign[table] as Campaign | undefined), [name]: value };
}

/** The campaign as a file, which `plimsoll run FILE.toml` carries out. */
export function fileOf(campaign: Campaign): string {
  const isTable = (value: CampaignValue): value is Campaign => typeof value === "object" && !Array.isArray(value);
  const isList = (value: CampaignValue): value is Campaign[] => Array.isArray(value) && value.some((one) => isTable(one));
  const lines = (table: Campaign): string[] =>
    Object.entries(table)
      .filter(([, value]) => !isTable(value) && !isList(value))
      .map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  const below = Object.entries(campaign).flatMap(([key, value]) => {
    if (isList(value)) return value.flatMap((one) => ["", `[[${key}]]`, ...lines(one)]);
    return isTable(value) ? ["", `[${key}]`, ...lines(value)] : [];
  });
  return [...lines(campaign), ...below].join("\n");
}
