import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { printableJson } from '../../platform/visible.ts';

const INDENT = '  ';

/** Hidden personal data: its JSON Pointer, and its kind where the schema names one. */
type Hidden = readonly { readonly pointer: string; readonly kind: string | null }[];

/** Draws a payload as JSON, with a chip in the place of each hidden value. */
export function payload(value: unknown, hidden: Hidden = []): Html {
  const kinds = new Map(hidden.map(({ pointer, kind }) => [pointer, kind]));
  return html`${draw(value, { pointer: '', indent: '', kinds })}`;
}

interface Place {
  readonly pointer: string;
  readonly indent: string;
  readonly kinds: ReadonlyMap<string, string | null>;
}

function draw(value: unknown, place: Place): Child {
  const kind = place.kinds.get(place.pointer);
  if (kind !== undefined) return chip(kind);
  if (Array.isArray(value))
    return brackets(
      '[',
      ']',
      value.map((item, index) => draw(item, within(place, index))),
      place,
    );
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([key, member]) =>
        html`<span class="k">${printableJson(key)}</span>: ${draw(member, within(place, key))}`,
    );
    return brackets('{', '}', members, place);
  }
  return printableJson(value ?? null);
}

function chip(kind: string | null): Html {
  return html`<span class="red">hidden${kind !== null && `: ${kind}`}</span>`;
}

function brackets(open: string, close: string, lines: readonly Child[], { indent }: Place): Child {
  if (lines.length === 0) return open + close;
  return [
    open,
    lines.map((line, index) => [index === 0 ? '\n' : ',\n', indent, INDENT, line]),
    '\n',
    indent,
    close,
  ];
}

/** @see https://www.rfc-editor.org/rfc/rfc6901 for the escapes in a pointer. */
function within({ pointer, indent, kinds }: Place, key: string | number): Place {
  const token = String(key).replaceAll('~', '~0').replaceAll('/', '~1');
  return { pointer: `${pointer}/${token}`, indent: indent + INDENT, kinds };
}
