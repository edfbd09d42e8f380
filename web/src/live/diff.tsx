// SPDX-License-Identifier: Apache-2.0
// Two runs at two times, as `plimsoll diff` tells it.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { api } from "./api";
import { useLoaded } from "./connection";
import { DrawnParts } from "./html";
import { Page, Waiting } from "./parts";

export function DiffPage(props: { base: string; other: string }): JSX.Element {
  const { value, error } = useLoaded(() => api.diff(props.base, props.other), [props.base, props.other]);
  const parts = useMemo(() => (value ? [{ id: "diff", html: value.html }] : []), [value]);
  return (
    <Page title="Two runs compared" lead={`${props.base} is the base, ${props.other} is compared with it.`}>
      {value ? <DrawnParts parts={parts} /> : <Waiting error={error} />}
    </Page>
  );
}
