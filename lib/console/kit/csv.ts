import * as z from 'zod';

import { wantsCsv } from '../../platform/http/negotiate.ts';
import { CSV_TYPE } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { withParameters } from './links.ts';

// Every list as a file: its columns are the fields of the answer, its rows all that match.

/** A list in an answer. */
export interface CsvList {
  /** Where it is in the answer: `items`, `receipts.items`. */
  readonly path: string;
  /** The words of its link. */
  readonly words: string;
  /** Whether the answer has one page of it, and beside it the cursor of the next. */
  readonly isPaged?: boolean;
}

/** The most rows of a file, and how many are read at once. */
const MOST_ROWS = 10_000;
const PAGE = 1000;

/** A function lives for thirty seconds. */
const BUDGET_MS = 15 * SECOND;

interface Asked {
  readonly request: Request;
  readonly url: URL;
}

/** Finds the list that a request wants as CSV. @returns null for another form. @throws Problem 400 for an unknown list */
export function wantedCsv(lists: readonly CsvList[], { request, url }: Asked): CsvList | null {
  const format = url.searchParams.get('format');
  if (format === null ? !wantsCsv(request.headers) : format !== 'csv') return null;
  const list = url.searchParams.get('list');
  const known = z.object({ list: z.enum(lists.map(({ path }) => path)).nullable() });
  requireValid({ list }, known);
  return lists.find(({ path }) => path === list) ?? lists[0]!;
}

/** The parameters that ask for a list as CSV, for OpenAPI. */
export function csvParameters(lists: readonly CsvList[]): NonNullable<Operation['parameters']> {
  const description = `\`csv\` for a file with all that match, up to ${MOST_ROWS} rows: the next are at the header \`Link\`.`;
  const names = lists.map(({ path }) => path);
  return [
    { in: 'query', name: 'format', schema: z.literal('csv').meta({ description }) },
    ...(names.length === 1
      ? []
      : [
          {
            in: 'query' as const,
            name: 'list',
            schema: z.enum(names).meta({ description: 'With `format`: which list.' }),
          },
        ]),
  ];
}

/** The links of a page to its lists as CSV, but for those that are empty. @param view the page's answer. */
export function csvLinks(
  lists: readonly CsvList[],
  view: unknown,
  url: URL,
): readonly { words: string; path: string }[] {
  return lists.flatMap((one, index) => {
    if (placeOf(view, one).rows.length === 0) return [];
    const list = index === 0 ? null : one.path;
    const words = one.isPaged === true ? `${one.words}, all that match` : one.words;
    return [{ words, path: withParameters(url, { format: 'csv', list, cursor: null, limit: null }) }];
  });
}

/** Reads a list to its end, or as far as it may, and writes it. @param read gives a page of the answer. */
export async function csvFile(
  list: CsvList,
  answer: z.ZodType,
  { url }: Asked,
  read: (page: { readonly cursor: string | null; readonly limit: number }) => Promise<unknown>,
): Promise<{ readonly text: string; readonly headers: Readonly<Record<string, string>> }> {
  const endsAt = Date.now() + BUDGET_MS;
  const rows: unknown[] = [];
  let cursor = url.searchParams.get('cursor');
  do {
    const place = placeOf(await read({ cursor, limit: PAGE }), list);
    rows.push(...place.rows);
    cursor = list.isPaged === true ? place.nextCursor : null;
  } while (cursor !== null && rows.length <= MOST_ROWS - PAGE && Date.now() < endsAt);
  const next = withParameters(url, { format: 'csv', cursor });
  const name = [
    url.pathname.split('/').at(-1),
    url.searchParams.get('list'),
    instantOf(Date.now()).slice(0, 10),
  ];
  const part = cursor === null ? [] : [`first-${rows.length}`];
  return {
    text: csvOf(columnsOf(elementOf(answer, list)), rows),
    headers: {
      'content-type': `${CSV_TYPE}; charset=utf-8; header=present`,
      'content-disposition': `attachment; filename="${[...name, ...part].filter(Boolean).join('-')}.csv"`,
      ...(cursor !== null && { link: `<${next}>; rel="next"` }),
    },
  };
}

const page = z.looseObject({ nextCursor: z.string().nullish() });

function placeOf(view: unknown, { path }: CsvList) {
  const names = path.split('.');
  const { nextCursor = null } = page.parse(valueAt(view, names.slice(0, -1)));
  return { rows: z.array(z.unknown()).parse(valueAt(view, names)), nextCursor };
}

function valueAt(value: unknown, [name, ...others]: readonly string[]): unknown {
  if (name === undefined) return value;
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? valueAt(Object.entries(value).find(([one]) => one === name)?.[1], others) : undefined;
}

/** The shape of a list's rows. */
function elementOf(answer: z.ZodType, { path }: CsvList): z.ZodType {
  const list = path
    .split('.')
    .reduce((shape, name) => (shape instanceof z.ZodObject ? shape.shape[name] : shape), plainOf(answer));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- of our own shapes
  if (list instanceof z.ZodArray) return list.element as z.ZodType;
  throw new TypeError(`${path} is not a list of the answer`);
}

/** The columns of an object's fields, with those of objects in it as `lastError.kind`. */
function columnsOf(shape: z.ZodType, path: readonly string[] = []): readonly string[] {
  const plain = plainOf(shape);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- of our own shapes
  const options = plain instanceof z.ZodUnion ? (plain.options as z.ZodType[]).map(plainOf) : [plain];
  const objects = options.filter((option) => option instanceof z.ZodObject);
  if (objects.length === 0) return [path.join('.')];
  const columns = objects.flatMap((option) =>
    Object.entries<z.ZodType>(option.shape).flatMap(([name, field]) => columnsOf(field, [...path, name])),
  );
  return [...new Set(columns)];
}

function plainOf(shape: z.ZodType): z.ZodType {
  const isWrapped = shape instanceof z.ZodNullable || shape instanceof z.ZodOptional;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- of our own shapes
  return isWrapped ? plainOf(shape.unwrap() as z.ZodType) : shape;
}

/** Writes rows by columns. @see https://www.rfc-editor.org/rfc/rfc4180 */
export function csvOf(columns: readonly string[], rows: readonly unknown[]): string {
  const lines = rows.map((row) => columns.map((column) => cellOf(valueAt(row, column.split('.')))));
  return [columns, ...lines].map((cells) => `${cells.map(quoted).join(',')}\r\n`).join('');
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
