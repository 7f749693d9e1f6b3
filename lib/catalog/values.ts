import * as z from 'zod';

/** An instant as an ISO 8601 string in UTC, as events carry it. */
export const instant = z.iso.datetime();

/** A calendar day, `YYYY-MM-DD`. */
export const day = z.iso.date();

/** An id of one of the platform's own records. */
export const id = z.string().min(1).max(255);

/** An amount of money in the smallest unit of its currency (øre, cents), so that no sum is ever rounded. */
export const amountMinor = z.int().nonnegative();

/** A currency by its three letters in ISO 4217. */
export const currency = z
  .string()
  .regex(/^[A-Z]{3}$/, 'write the three capital letters of ISO 4217, for example NOK');

/** Marks a field as personal data: operators see it only with the reveal scope. */
export function personal<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ personal: true });
}

/** A person's name. */
export const personName = personal(z.string().min(1).max(200));

/** An e-mail address; letters such as æ, ø and å are allowed, since municipal domains have them. */
export const email = personal(z.email({ pattern: z.regexes.unicodeEmail }).max(254));

/** What a person wrote in their own words. */
export const freeText = personal(z.string().min(1).max(10_000));

/** A name or title of something that is no person: a venue, a plan, a report. */
export const title = z.string().min(1).max(200);

/** How many there are of something. */
export const count = z.int().nonnegative();
