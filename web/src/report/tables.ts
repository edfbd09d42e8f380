// SPDX-License-Identifier: Apache-2.0
// Tables sorted by a column. A row whose first cell is empty goes on about the row above, and moves with it.
import { all, make, once } from "./dom";

export type Order = "ascending" | "descending";

/** Gives tables below `root` a button in each header. */
export function addSorting(root: ParentNode): void {
  for (const table of all<HTMLTableElement>(root, "table")) {
    const body = table.tBodies[0];
    if (!body || groupsOf(body).length < 2 || !isPlain(table) || !once(table, "sorting")) continue;
    headers(table).forEach((header, column) => {
      if (header.textContent?.trim() === "") return;
      const button = make("button", { type: "button", class: "sort" });
      button.append(...Array.from(header.childNodes));
      header.append(button);
      button.addEventListener("click", () => {
        const up = header.getAttribute("aria-sort") === "ascending";
        sortBy(table, column, up ? "descending" : "ascending");
      });
    });
  }
}

/** Sorts a table and says so in its header. */
export function sortBy(table: HTMLTableElement, column: number, order: Order): void {
  const body = table.tBodies[0];
  if (!body) return;
  const sign = order === "ascending" ? 1 : -1;
  const groups = groupsOf(body).map((rows) => ({ rows, key: keyOf(rows[0], column) }));
  groups.sort((a, b) => compare(a.key, b.key, sign));
  body.append(...groups.flatMap((group) => group.rows));
  headers(table).forEach((header, i) => {
    if (i === column) header.setAttribute("aria-sort", order);
    else header.removeAttribute("aria-sort");
  });
}

/** The header cells that stand for one column each. */
export function headers(table: HTMLTableElement): HTMLTableCellElement[] {
  const row = table.tHead?.rows[table.tHead.rows.length - 1];
  return row ? Array.from(row.cells) : [];
}

/** Cells that span rows or columns would be torn apart. */
function isPlain(table: HTMLTableElement): boolean {
  return table.querySelector("[colspan], [rowspan]") === null && headers(table).length > 0;
}

function groupsOf(body: HTMLTableSectionElement): HTMLTableRowElement[][] {
  const groups: HTMLTableRowElement[][] = [];
  for (const row of Array.from(body.rows)) {
    const last = groups[groups.length - 1];
    if (last && row.cells[0]?.textContent?.trim() === "") last.push(row);
    else groups.push([row]);
  }
  return groups;
}

type Key = number | string | null;

function keyOf(row: HTMLTableRowElement | undefined, column: number): Key {
  const cell = row?.cells[column];
  if (!cell) return null;
  const number = cell.dataset["n"];
  if (number !== undefined) return Number.isNaN(Number(number)) ? null : Number(number);
  return cell.textContent?.trim() || null;
}

/** Cells without a value come last in either order. */
function compare(a: Key, b: Key, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}
