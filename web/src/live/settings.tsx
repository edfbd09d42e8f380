// SPDX-License-Identifier: Apache-2.0
// Settings of a workload, a stack or a layer, as the catalogue lists them.
import type { JSX } from "preact";
import type { CatalogueSetting } from "./api";
import { Field } from "./parts";

/** Values by name; what is missing or empty stays as it is by default. */
export type Settings = Record<string, string>;

export function SettingFields(props: {
  title: string;
  offered: readonly CatalogueSetting[];
  values: Settings;
  set: (values: Settings) => void;
}): JSX.Element | null {
  if (props.offered.length === 0) return null;
  return (
    <details>
      <summary>
        {props.title} ({props.offered.length})
      </summary>
      <div class="fields">
        {props.offered.map((setting) => (
          <Field
            key={setting.name}
            label={setting.name}
            help={setting.text}
            placeholder={setting.value}
            value={props.values[setting.name] ?? ""}
            set={(value) => props.set({ ...props.values, [setting.name]: value })}
          />
        ))}
      </div>
    </details>
  );
}
