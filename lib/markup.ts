import { html as tagged } from 'hono/html';
import type { raw } from 'hono/html';

/** Markup in which every value has been escaped. */
export type Html = ReturnType<typeof raw>;

/** What may stand in markup: text is escaped, what is absent draws nothing. */
export type Child = Html | string | number | null | undefined | false | readonly Child[];

/** Hono's `html`, for children that are known by now: it then never answers a promise. */
export function html(strings: TemplateStringsArray, ...children: readonly Child[]): Html {
  const markup = tagged(strings, ...children);
  if (markup instanceof Promise) throw new TypeError('a child of the markup is not known yet');
  return markup;
}
