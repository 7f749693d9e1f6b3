import * as z from 'zod';

/** An instant as an ISO 8601 string in UTC, as events carry it. */
export const instant = z
  .string()
  // One instant has one spelling for subscribers and searches, whatever its producer's language writes.
  .overwrite((text) => text.replace(/[+-]00:00$/, 'Z'))
  .check(z.iso.datetime('expected an instant of UTC, for example 2026-02-21T09:30:00Z'));

/** A calendar day, `YYYY-MM-DD`. */
export const day = z.iso.date();

/**
 * Marks a field as personal data: operators see it only with the reveal scope, and the audit trail does not keep it.
 *
 * Everything that a person typed is personal, no matter what it is for: a reason, a note, the name of a venue.
 */
export function personal<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ personal: true });
}

/**
 * Marks a text that machines write for machines: an id, a number in a register, a word of a vocabulary.
 *
 * Every text of a payload is marked as a code or as personal; enums, dates and UUIDs are codes by their type. A value
 * that does not look like a code, for example because it has a space, is hidden like personal data.
 */
export function code<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ personal: false });
}

/** An id of one of the platform's own records. */
export const id = code(z.string().min(1).max(255));

/** An id from another system. */
export const reference = code(z.string().min(1));

/** An amount of money in the smallest unit of its currency (øre, cents), so that no sum is rounded. */
export const amountMinor = z.int().nonnegative();

/** A currency as three letters of ISO 4217. */
export const currency = code(
  z.string().regex(/^[A-Z]{3}$/, 'expected three capital letters of ISO 4217, for example NOK'),
);

/** A person's name. */
export const personName = personal(z.string().min(1).max(200));

/** An e-mail address. Allows letters such as æ, ø and å, because municipal domains have them. */
export const email = personal(z.email({ pattern: z.regexes.unicodeEmail }).max(254));

/** Free text that a person wrote. */
export const freeText = personal(z.string().min(1).max(10_000));

/** A name or title that a person gave to something: a venue, an organization, a season. */
export const title = personal(z.string().min(1).max(200));

/** A number of things. */
export const count = z.int().nonnegative();

/** The most items of a list: more are several events. With 10,000 a payload is checked in less than a second. */
export const MOST_ITEMS = 10_000;

/** A list. One that can be bounded more closely is `z.array(…).max(…)`. */
export function list<Item extends z.ZodType>(item: Item) {
  return z.array(item).max(MOST_ITEMS);
}
