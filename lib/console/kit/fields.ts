import * as z from 'zod';
import { sql as statement } from 'drizzle-orm';

import { events } from '../../../drizzle/schema.ts';

/** One field of an answer: its shape, and the SQL that reads it; null where it is computed from what was read. */
export interface Field<Shape extends z.ZodType = z.ZodType, Sql extends string | null = string | null> {
  readonly shape: Shape;
  readonly sql: Sql;
}

type Fields = Readonly<Record<string, Field>>;

/** What a statement reads of these fields, under the answer's names. */
export type Row<Of extends Fields> = {
  readonly [Name in keyof Of as Of[Name]['sql'] extends string ? Name : never]: z.output<Of[Name]['shape']>;
};

export function field<Shape extends z.ZodType>(
  shape: Shape,
  sql: string,
  description?: string,
): Field<Shape, string> {
  return { shape: described(shape, description), sql };
}

export function count(sql: string, description?: string) {
  return field(described(z.int().nonnegative(), description), sql);
}

export function text(sql: string, description?: string) {
  return field(described(z.string(), description), sql);
}

export function textOrNull(sql: string, description?: string) {
  return field(described(z.string().nullable(), description), sql);
}

export function computed<Shape extends z.ZodType>(shape: Shape): Field<Shape, null> {
  return { shape, sql: null };
}

/** An instant as answers have it, in SQL: ISO 8601 in UTC, to the millisecond. */
export function instantSql(sql: string): string {
  return `to_char(${sql} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

/** The same to the microsecond, as the database stores it; null for an infinite one. */
export function exactInstantSql(sql: string): string {
  return `to_char(${sql} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
}

export function instant(sql: string, description?: string) {
  return field(described(z.iso.datetime(), description), instantSql(sql));
}

export function instantOrNull(sql: string, description?: string) {
  return field(described(z.iso.datetime().nullable(), description), instantSql(sql));
}

function described<Shape extends z.ZodType>(shape: Shape, description: string | undefined): Shape {
  return description === undefined ? shape : shape.meta({ description });
}

/** The shapes, of which an answer is made. */
export function shapesOf<Of extends Fields>(fields: Of): { readonly [Name in keyof Of]: Of[Name]['shape'] } {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same names
  return Object.fromEntries(Object.entries(fields).map(([name, { shape }]) => [name, shape])) as {
    readonly [Name in keyof Of]: Of[Name]['shape'];
  };
}

/** One JSON object of the fields, in SQL. @param more what is read beyond them, to compute others from. */
export function jsonOf(fields: Fields, more: Readonly<Record<string, string>> = {}): string {
  const read = Object.entries(fields).flatMap(([name, { sql }]) => (sql === null ? [] : [[name, sql]]));
  const pairs = [...read, ...Object.entries(more)].map(([name, sql]) => `'${name}', ${sql}`);
  return `json_build_object(${pairs.join(', ')})`;
}

/** A query's cursor: where a page of a list begins, as an earlier answer wrote it. */
export function cursorOf<Shape extends z.ZodType>(shape: Shape) {
  return z.string().transform((written, context): z.output<Shape> => {
    try {
      return shape.parse(JSON.parse(Buffer.from(written, 'base64url').toString()));
    } catch {
      context.addIssue({ code: 'custom', message: 'expected a cursor from an earlier answer, or none' });
      return z.NEVER;
    }
  });
}

export function writeCursor(cursor: unknown): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

/** The database's clock, as a column of a row. */
export const now = statement`clock_timestamp()`.mapWith(events.createdAt);
