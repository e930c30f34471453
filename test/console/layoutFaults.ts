/** Finds hidden text, overflow and collisions in the layout of the open page. */
import type { Page } from 'playwright-core';

const SHOWN = 12;

/** Returns a sentence for each fault; none if everything can be read. */
export async function layoutFaults(page: Page): Promise<string[]> {
  await page.evaluate(NEXT_FRAME);
  const faults = await page.evaluate<string[]>(`(${FAULTS})()`);
  const more = faults.length - SHOWN;
  return more > 0 ? [...faults.slice(0, SHOWN), `and ${more} more`] : faults;
}

/** Waits until the browser has painted, because a chart gets its final width in the frame after its first one. */
const NEXT_FRAME = 'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))';

/** Runs in the page. An element may hide content if it is scrollable, or if it shows an ellipsis and its title has the whole text. */
const FAULTS = `() => {
  const width = document.documentElement.clientWidth;
  const faults = new Set();
  const described = (element) => {
    const text = (element.innerText ?? '').trim().replace(/\\s+/g, ' ');
    return element.tagName.toLowerCase() + (element.className ? '.' + String(element.className) : '') + ' "' + text.slice(0, 40) + '"';
  };
  const add = (fault, element) => faults.add(fault + ': ' + described(element));
  const isScrollable = (style) => /auto|scroll/.test(style.overflowX) || /auto|scroll/.test(style.overflowY);
  /** Boxes that may scroll: code, the editor, dialogs, the list of tables, and results. */
  const MAY_SCROLL = 'pre, textarea, dialog, .ask aside, .table.down, .table.both';
  const dialog = document.querySelector('dialog[open]');
  const root = dialog ?? document.body;

  if (document.documentElement.scrollWidth > width) faults.add('the page is wider than the window');
  const tab = document.querySelector('nav [aria-current]')?.getBoundingClientRect();
  if (tab && (tab.left < 0 || tab.right > width)) faults.add('the selected tab is out of view');
  const [header, main] = ['header', 'main'].map((name) => document.querySelector('.shell > ' + name)?.getBoundingClientRect());
  if (header && main && main.top < header.bottom - 1) faults.add('the header covers the content');

  for (const element of root.querySelectorAll('*')) {
    if (!element.checkVisibility() || element.closest('svg, option, .u-wrap')) continue;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    const isCut = element.scrollWidth > element.clientWidth + 1 && style.display !== 'inline';
    const isEllipsis = style.textOverflow === 'ellipsis' && element.title !== '';
    const mayScroll = element.matches(MAY_SCROLL);
    if (isCut && style.overflowX !== 'visible' && !isEllipsis && !mayScroll && !element.matches('input, select')) {
      add('hides a part of its content', element);
    }
    if (element.matches('td, th, button, .tag, dd, p, li') && isCut && style.overflowX === 'visible') add('content is wider than its box', element);
    const isLong = element.scrollHeight > element.clientHeight + 1 && isScrollable(style);
    if (isLong && !mayScroll) add('scrolls inside the page', element);
    if (style.overflowY === 'hidden' && element.scrollHeight > element.clientHeight + 2 && !isEllipsis) add('is truncated at the bottom', element);
    const scroller = element.parentElement?.closest(MAY_SCROLL);
    if ((box.right > width + 1 || box.left < -1) && !scroller?.matches('pre, .both')) add('is outside of the window', element);
    if (element.matches('select') && box.width > width) add('is wider than the window', element);
  }

  // Placeholders that do not fit into their fields.
  const pen = document.createElement('canvas').getContext('2d');
  for (const input of root.querySelectorAll('input[placeholder]')) {
    const style = getComputedStyle(input);
    pen.font = style.font;
    const room = input.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - (input.type === 'search' ? 20 : 0);
    if (input.checkVisibility() && pen.measureText(input.placeholder).width > room) faults.add('truncates the placeholder  ' + input.placeholder);
  }

  // A short word on several lines: "Sho" and "w".
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const parent = node.parentElement;
    if (!parent.checkVisibility() || parent.closest('svg, option, pre, textarea, .u-wrap')) continue;
    for (const { 0: word, index } of node.data.matchAll(/[\\w.]{2,14}(?![\\w.-])/g)) {
      if (/[\\w.-]/.test(node.data[index - 1] ?? ' ')) continue;
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (lines.size > 1) add('breaks the word ' + word, parent);
    }
  }

  // Main text and the small text or tag after it.
  for (const small of root.querySelectorAll('td small, .tag')) {
    const before = small.previousSibling;
    if (!before || /\\s$/.test(before.textContent) || !small.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNode(before);
    const [end, start] = [[...range.getClientRects()].at(-1), small.getClientRects()[0]];
    const isBeside = end && start && start.top < end.bottom - 2 && start.left >= end.right - 1;
    if (isBeside && start.left - end.right < 2) add('touches the text before it', small);
  }
  // Times without a zone.
  for (const time of root.querySelectorAll('time')) {
    if (!/ago|now|^in /.test(time.textContent) && !time.title.match(/[A-Z]{3}/)) add('has no zone', time);
  }
  // Filters and the element after them.
  for (const filters of root.querySelectorAll('form.filters')) {
    const next = filters.nextElementSibling;
    if (next?.checkVisibility() && next.getBoundingClientRect().top - filters.getBoundingClientRect().bottom < 4) add('touches the filters', next);
  }
  // Labels of an axis that begin left of the canvas.
  for (const canvas of root.querySelectorAll('.uplot canvas')) {
    const pixels = canvas.getContext('2d').getImageData(0, 0, 2, canvas.height).data;
    if (pixels.some((value, i) => i % 4 === 3 && value > 0)) add('truncates the labels of its axis', canvas);
    const right = canvas.getContext('2d').getImageData(canvas.width - 2, 0, 2, canvas.height).data;
    if (right.some((value, i) => i % 4 === 3 && value > 0)) add('truncates the last label of its axis', canvas);
  }
  return [...faults];
}`;
