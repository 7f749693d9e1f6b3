import { html as tagged } from 'hono/html';
import type { raw } from 'hono/html';

import { visible } from './visible.ts';

/** Markup in which every value has been escaped. */
export type Html = ReturnType<typeof raw>;

/** A part of markup: text is escaped; null, undefined and false draw nothing. */
export type Child = Html | string | number | null | undefined | false | readonly Child[];

/**
 * Hono's `html`, which does all escaping, with types: Hono's takes `any`, so an object or a forgotten `await` would be
 * drawn as `[object Object]`, and may return a promise. Here both are compile errors, and pages are plain functions.
 *
 * In text, not in attributes, signs stand for characters that control, hide or turn round what is beside them: keys,
 * names and errors come from elsewhere. A mail with what a person wrote takes `verbatimHtml`.
 */
export function html(strings: TemplateStringsArray, ...children: readonly Child[]): Html {
  const places = placesOf(strings);
  return verbatimHtml(strings, ...children.map((child, index) => (places[index] ? shown(child) : child)));
}

/** The same with texts as they are, except for the escaping. */
export function verbatimHtml(strings: TemplateStringsArray, ...children: readonly Child[]): Html {
  const markup = tagged(strings, ...children);
  if (markup instanceof Promise) throw new TypeError('expected markup without promises');
  return markup;
}

function shown(child: Child): Child {
  if (typeof child === 'string') return visible(child);
  return isList(child) ? child.map(shown) : child;
}

/** `Array.isArray` knows no list that can't be changed. */
function isList(child: Child): child is readonly Child[] {
  return Array.isArray(child);
}

const knownPlaces = new WeakMap<TemplateStringsArray, readonly boolean[]>();

/** Tells of each child whether it stands in text, and not within a tag. */
function placesOf(strings: TemplateStringsArray): readonly boolean[] {
  const known = knownPlaces.get(strings);
  if (known) return known;
  let isText = true;
  const found = strings.map((string) => {
    const [opened, closed] = [string.lastIndexOf('<'), string.lastIndexOf('>')];
    if (opened !== closed) isText = closed > opened;
    return isText;
  });
  knownPlaces.set(strings, found);
  return found;
}
