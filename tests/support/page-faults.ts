import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

import type axeCore from 'axe-core';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

/** The page, and each part of it that would have to be scrolled sideways. */
const WIDER_THAN_ITS_PLACE = `[...document.querySelectorAll('html, main, header, main *, header *')]
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 1)
  .filter((element) => element.localName === 'html' || /auto|scroll/.test(getComputedStyle(element).overflowX))
  .map((element) => element.localName + '.' + element.className + ' is ' + element.scrollWidth + ' px wide')`;

/** The names that several buttons, or links to several pages, have in common. */
const BUTTONS_OF_ONE_NAME = `(() => {
  const places = new Map();
  for (const element of document.querySelectorAll('button, summary, a.btn')) {
    const name = (element.ariaLabel ?? element.textContent).replaceAll(/\\s+/g, ' ').trim();
    const place = element.href ?? element;
    if (getComputedStyle(element).display !== 'none') places.set(name, (places.get(name) ?? new Set()).add(place));
  }
  return [...places].filter(([, { size }]) => size > 1).map(([name]) => name);
})()`;

const WCAG = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

const axe = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Opens a page in light and in dark, and narrow. @returns what of it violates WCAG 2.2 A or AA, has the name of another
 * button, or would have to be scrolled sideways.
 */
export async function pageFaults(page: Page, url: string): Promise<string[]> {
  const { pathname, search } = new URL(url);
  const path = pathname.replace('/platform/event-bus', '') + search;
  const faults: string[] = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    // Without motion: a page that is open already would be judged in the middle of its change of colours.
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.goto(url);
    const violations = await violationsOf(page);
    const twice = await page.evaluate<string[]>(BUTTONS_OF_ONE_NAME);
    faults.push(...twice.map((name) => `${path}: two buttons are called ${name}`));
    faults.push(...violations.map((violation) => `${path} ${colorScheme}: ${violation}`));
  }
  for (const width of [1024, 390, 320]) {
    await page.setViewportSize({ width, height: 640 });
    const wide = await page.evaluate<string[]>(WIDER_THAN_ITS_PLACE);
    faults.push(...wide.map((element) => `${path} at ${width} px: ${element}`));
  }
  return faults;
}

/** @returns what violates WCAG 2.2 A or AA on the page as it is now, such as the answer to a form. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(await axe);
  const { violations } = await page.evaluate<AxeResults, string[]>(
    (tags) => (globalThis as never as { axe: typeof axeCore }).axe.run({ runOnly: tags }),
    WCAG,
  );
  return violations.map(({ id, nodes }) => `${id} ${nodes.map(({ html }) => html).join(' ')}`);
}
