// SPDX-License-Identifier: Apache-2.0
// Commands that can be copied.
import { all, make, once } from "./dom";

const SAID_MS = 2000;

/** Gives every command below `root` a button that copies it. */
export function addCopying(root: ParentNode): void {
  for (const command of all<HTMLPreElement>(root, "pre.command")) {
    if (!once(command, "copy")) continue;
    const text = command.textContent?.trim() ?? "";
    const box = make("div", { class: "copying" });
    const button = make("button", { type: "button", class: "plain" }, "Copy");
    button.setAttribute("aria-label", "Copy the command");
    command.replaceWith(box);
    box.append(command, button);
    button.addEventListener("click", () => void copy(text, command).then((done) => say(button, done)));
  }
}

/** Copies; what no browser lets us copy is selected, so that the user can. */
async function copy(text: string, element: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(element);
    return false;
  }
}

function say(button: HTMLButtonElement, done: boolean): void {
  const text = done ? "Copied" : "Selected: Ctrl-C";
  button.textContent = text;
  button.setAttribute("aria-label", text);
  setTimeout(() => {
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command");
  }, SAID_MS);
}
