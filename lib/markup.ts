import { html as tagged } from 'hono/html';
import type { raw } from 'hono/html';

/** Markup in which every value has been escaped. */
export type Html = ReturnType<typeof raw>;

/** A part of markup: text is escaped; null, undefined and false draw nothing. */
export type Child = Html | string | number | null | undefined | false | readonly Child[];

/**
 * Hono's `html`, which does all escaping, with types: Hono's takes `any`, so an object or a forgotten `await` would be
 * drawn as `[object Object]`, and may return a promise. Here both are compile errors, and pages are plain functions.
 */
export function html(strings: TemplateStringsArray, ...children: readonly Child[]): Html {
  const markup = tagged(strings, ...children);
  if (markup instanceof Promise) throw new TypeError('expected markup without promises');
  return markup;
}
