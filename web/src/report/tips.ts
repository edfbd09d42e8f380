// SPDX-License-Identifier: Apache-2.0
// Text of a mark of a chart, shown at the mark: by pointer, by touch and by keyboard. Tab enters a chart at one
// mark; arrows go on from there. A screen reader hears the same text as the name of the focused mark.
import { all, make, once } from "./dom";

/** A pointer this close to a mark (px) means it: marks are small. */
const NEAR_PX = 18;
/** Larger shapes are pointed at directly, not from nearby. */
const SMALL_PX = 40;

type Mark = SVGElement | HTMLElement;
interface Place {
  mark: Mark;
  x: number;
  y: number;
}

let tip: HTMLElement | undefined;
let shown: Mark | undefined;

/** Gives every chart below `root` its pointing. */
export function addTips(root: ParentNode): void {
  for (const chart of all<SVGSVGElement>(root, "svg")) {
    const first = chart.querySelector<Mark>("[data-tip]");
    if (first === null || !once(chart, "tips")) continue;
    // A picture may not hold what can be focused; a group may.
    chart.setAttribute("role", "group");
    first.setAttribute("tabindex", "0");
    name(first);
    chart.addEventListener("pointermove", (event) => point(chart, event));
    chart.addEventListener("pointerleave", (event) => {
      if (event.relatedTarget !== tip) hide();
    });
    chart.addEventListener("pointerdown", (event) => point(chart, event));
    chart.addEventListener("keydown", (event) => key(chart, event));
    chart.addEventListener("focusin", (event) => {
      const mark = markAt(event.target);
      if (mark) show(mark);
    });
    chart.addEventListener("focusout", hide);
  }
}

function markAt(target: EventTarget | null): Mark | null {
  return target instanceof Element ? target.closest<Mark>("[data-tip]") : null;
}

function visibleMarks(chart: SVGSVGElement): Mark[] {
  return all<Mark>(chart, "[data-tip]").filter((mark) => mark.closest(".off") === null);
}

/** The middles of small marks, measured once until the page moves or changes. */
const places = new WeakMap<SVGSVGElement, { key: string; places: Place[] }>();

function placesOf(chart: SVGSVGElement): Place[] {
  const box = chart.getBoundingClientRect();
  const key = `${box.left} ${box.top} ${box.width} ${all(chart, ".off").length}`;
  const known = places.get(chart);
  if (known?.key === key) return known.places;
  const fresh: Place[] = [];
  for (const mark of visibleMarks(chart)) {
    const at = mark.getBoundingClientRect();
    if (at.width > SMALL_PX || at.height > SMALL_PX) continue;
    fresh.push({ mark, x: at.left + at.width / 2, y: at.top + at.height / 2 });
  }
  places.set(chart, { key, places: fresh });
  return fresh;
}

function point(chart: SVGSVGElement, event: PointerEvent): void {
  const mark = markAt(event.target) ?? nearest(chart, event.clientX, event.clientY);
  if (mark) show(mark, event);
  else hide();
}

function nearest(chart: SVGSVGElement, x: number, y: number): Mark | null {
  let best: Mark | null = null;
  let least = NEAR_PX;
  for (const place of placesOf(chart)) {
    const distance = Math.hypot(place.x - x, place.y - y);
    if (distance < least) {
      least = distance;
      best = place.mark;
    }
  }
  return best;
}

function key(chart: SVGSVGElement, event: KeyboardEvent): void {
  const from = markAt(event.target);
  if (from === null) return;
  if (event.key === "Escape") return hide();
  const to = next(visibleMarks(chart), from, event.key);
  if (to === undefined) return;
  event.preventDefault();
  from.setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  name(to);
  to.focus();
  show(to);
}

/** Left and right go on in the order of drawing, up and down to the next arm. */
function next(marks: Mark[], from: Mark, key: string): Mark | undefined {
  const at = marks.indexOf(from);
  const other = (step: number): Mark | undefined => {
    const arm = seriesOf(from);
    for (let i = at + step; i >= 0 && i < marks.length; i += step) {
      const mark = marks[i];
      if (mark && seriesOf(mark) !== arm) return mark;
    }
    return marks[at + step];
  };
  switch (key) {
    case "ArrowRight":
      return marks[at + 1];
    case "ArrowLeft":
      return marks[at - 1];
    case "ArrowDown":
      return other(1);
    case "ArrowUp":
      return other(-1);
    case "Home":
      return marks[0];
    case "End":
      return marks[marks.length - 1];
    default:
      return undefined;
  }
}

function seriesOf(mark: Mark): string {
  return mark.closest("[data-series]")?.getAttribute("data-series") ?? "";
}

/** The tip is the accessible name; the browser's own tip for `<title>` would come on top of ours. */
function name(mark: Mark): void {
  mark.setAttribute("role", "img");
  mark.setAttribute("aria-label", mark.getAttribute("data-tip") ?? "");
  for (const child of Array.from(mark.children)) if (child.nodeName === "title") child.remove();
}

function show(mark: Mark, pointer?: PointerEvent): void {
  if (tip === undefined) {
    tip = make("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    tip.addEventListener("pointerleave", hide);
    document.body.append(tip);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
    });
  }
  if (shown !== mark) {
    shown?.classList.remove("here");
    shown = mark;
    mark.classList.add("here");
    name(mark);
    tip.textContent = mark.getAttribute("data-tip");
  }
  tip.hidden = false;
  place(tip, mark.getBoundingClientRect(), pointer);
}

/** Above the mark, or below where there is no room; a large shape has its tip at the pointer. */
function place(tip: HTMLElement, mark: DOMRect, pointer?: PointerEvent): void {
  const large = pointer !== undefined && (mark.width > SMALL_PX || mark.height > SMALL_PX);
  const x = large ? pointer.clientX : mark.left + mark.width / 2;
  const top = large ? pointer.clientY - 8 : mark.top;
  const bottom = large ? pointer.clientY + 16 : mark.bottom;
  tip.style.left = "0";
  const size = tip.getBoundingClientRect();
  const widest = document.documentElement.clientWidth - size.width - 8;
  const left = Math.max(8, Math.min(x - size.width / 2, widest));
  const above = top - size.height - 8;
  tip.style.left = `${left + window.scrollX}px`;
  tip.style.top = `${(above > 4 ? above : bottom + 8) + window.scrollY}px`;
}

function hide(): void {
  shown?.classList.remove("here");
  shown = undefined;
  if (tip) tip.hidden = true;
}
