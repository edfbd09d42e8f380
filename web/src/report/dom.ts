// SPDX-License-Identifier: Apache-2.0
// Making elements. Text is only ever set as text.

type Attributes = Record<string, string>;

/** An HTML element with attributes and text. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  text = "",
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

/** All elements below `root` that match. */
export function all<E extends Element = HTMLElement>(root: ParentNode, selector: string): E[] {
  return Array.from(root.querySelectorAll<E>(selector));
}

/** Whether this is the first time that `element` is given `what`; pages are enhanced again when parts change. */
export function once(element: Element, what: string): boolean {
  const key = `data-has-${what}`;
  if (element.hasAttribute(key)) return false;
  element.setAttribute(key, "");
  return true;
}
