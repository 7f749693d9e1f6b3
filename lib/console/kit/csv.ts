import * as z from 'zod';

import { CSV_TYPE } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { withParameters } from './links.ts';

// A list as a file: its rows are all that match.

/** The most rows of a file, and how many are read at once. */
const MOST_ROWS = 10_000;
const PAGE = 1000;

/** A function lives for thirty seconds. */
const BUDGET_MS = 15 * SECOND;

/** Whether an address is that of a list as CSV. */
export function asksForCsv({ searchParams }: URL): boolean {
  return searchParams.get('format') === 'csv';
}

/** The parameter that asks for a list as CSV, for OpenAPI. */
export function csvParameter(): NonNullable<Operation['parameters']>[number] {
  const description = `\`csv\` for a file with all that match, up to ${MOST_ROWS} rows: the next are at the header \`Link\`.`;
  return { in: 'query', name: 'format', schema: z.literal('csv').meta({ description }) };
}

/** The address of the list on a page as CSV; null for an empty one. @param view the page's answer. */
export function csvPath(view: unknown, url: URL): string | null {
  const isEmpty = page.parse(view).items.length === 0;
  return isEmpty ? null : withParameters(url, { format: 'csv', cursor: null, limit: null });
}

/** Reads a list to its end, or as far as it may, and writes it. @param read gives a page of the answer. */
export async function csvFile(
  columns: readonly string[],
  url: URL,
  read: (page: { readonly cursor: string | null; readonly limit: number }) => Promise<unknown>,
): Promise<{ readonly text: string; readonly headers: Readonly<Record<string, string>> }> {
  const endsAt = Date.now() + BUDGET_MS;
  const rows: unknown[] = [];
  let cursor = url.searchParams.get('cursor');
  do {
    const { items, nextCursor } = page.parse(await read({ cursor, limit: PAGE }));
    rows.push(...items);
    cursor = nextCursor;
  } while (cursor !== null && rows.length <= MOST_ROWS - PAGE && Date.now() < endsAt);
  const next = withParameters(url, { format: 'csv', cursor });
  const part = cursor === null ? '' : `-first-${rows.length}`;
  const name = `${url.pathname.split('/').at(-1)}-${instantOf(Date.now()).slice(0, 10)}${part}`;
  return {
    text: csvOf(columns, rows),
    headers: {
      'content-type': `${CSV_TYPE}; charset=utf-8; header=present`,
      'content-disposition': `attachment; filename="${name}.csv"`,
      ...(cursor !== null && { link: `<${next}>; rel="next"` }),
    },
  };
}

/** An answer with a list that is read page by page. */
const page = z.looseObject({ items: z.array(z.unknown()), nextCursor: z.string().nullable() });

/** Writes rows by columns. @see https://www.rfc-editor.org/rfc/rfc4180 */
export function csvOf(columns: readonly string[], rows: readonly unknown[]): string {
  const lines = rows.map((row) => columns.map((column) => cellOf(valueAt(row, column))));
  return [columns, ...lines].map((cells) => `${cells.map(quoted).join(',')}\r\n`).join('');
}

/** @param column a path, such as `lastError.kind`. */
function valueAt(row: unknown, column: string): unknown {
  return column
    .split('.')
    .reduce((of, name) => (typeof of === 'object' && of !== null ? Reflect.get(of, name) : undefined), row);
}

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return harmless(value);
  const isOfTexts = Array.isArray(value) && value.every((one) => typeof one !== 'object');
  return harmless(isOfTexts ? value.join('; ') : JSON.stringify(value));
}

/** A spreadsheet would take a text that begins so for a formula. @see https://owasp.org/www-community/attacks/CSV_Injection */
function harmless(text: string): string {
  return /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
}

function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
