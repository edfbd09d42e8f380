// SPDX-License-Identifier: Apache-2.0
// Pages have addresses behind the `#`; what the server is asked for never depends on them.
import { useEffect, useState } from "preact/hooks";

/** The parts of an address: `#/runs/abc` is `["runs", "abc"]`. */
export type Route = readonly string[];

export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function go(...parts: string[]): void {
  location.hash = href(...parts);
}

export function readRoute(): Route {
  const text = location.hash.replace(/^#\/?/, "");
  return text === "" ? [] : text.split("/").map(decoded);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useRoute(): Route {
  const [route, set] = useState(readRoute);
  useEffect(() => {
    const read = (): void => {
      // A link to a section of the page that is shown leads to no other page.
      if (location.hash === "" || location.hash.startsWith("#/")) set(readRoute());
    };
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return route;
}

/** Follows links to sections without leaving the address of the page. */
export function followSections(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest("a[href^='#']") : null;
  const name = link?.getAttribute("href")?.slice(1) ?? "";
  if (link === null || name.startsWith("/")) return;
  event.preventDefault();
  const section = document.getElementById(name);
  section?.scrollIntoView();
  section?.setAttribute("tabindex", "-1");
  section?.focus({ preventScroll: true });
}
