// SPDX-License-Identifier: Apache-2.0
// Parts that the report draws. Their HTML comes from plimsoll-report alone, which escapes every name; a part that
// did not change stays as it is, and one that did keeps what the reader opened, sorted and switched off.
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { enhance, readerState, restoreReaderState } from "../report/enhance";

export interface DrawnPart {
  id: string;
  html: string;
}

export function DrawnParts(props: { parts: readonly DrawnPart[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const drawn = useRef(new Map<string, { html: string; element: HTMLElement }>());
  useLayoutEffect(() => {
    if (box.current) keepingPlace(() => draw(box.current as HTMLElement, drawn.current, props.parts));
  }, [props.parts]);
  return <div ref={box} class="drawn" />;
}

type Drawn = Map<string, { html: string; element: HTMLElement }>;

function draw(box: HTMLElement, drawn: Drawn, parts: readonly DrawnPart[]): void {
  const wanted = new Set(parts.map((part) => part.id));
  for (const [id, { element }] of drawn) {
    if (wanted.has(id)) continue;
    element.remove();
    drawn.delete(id);
  }
  parts.forEach((part, index) => {
    const known = drawn.get(part.id);
    const element = known?.element ?? document.createElement("div");
    if (box.children[index] !== element) box.insertBefore(element, box.children[index] ?? null);
    if (known?.html === part.html) return;
    const state = readerState(element);
    element.innerHTML = part.html;
    enhance(element);
    restoreReaderState(element, state);
    drawn.set(part.id, { html: part.html, element });
  });
}

/** The element at the top of the window stays there, whatever grows above it. */
function keepingPlace(change: () => void): void {
  // Of all parts of the page: what changes may be above them.
  const top = (): Element | undefined =>
    Array.from(document.querySelectorAll(".drawn > *")).find((part) => part.getBoundingClientRect().bottom > 0);
  const first = top();
  const before = first?.getBoundingClientRect().top ?? 0;
  change();
  if (first === undefined || before > 0 || !first.isConnected) return;
  const moved = first.getBoundingClientRect().top - before;
  if (moved !== 0) window.scrollBy({ top: moved, behavior: "instant" });
}
