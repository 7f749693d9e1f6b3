import * as z from 'zod';

import { asciiAddress } from '../mail/address.ts';

/** Turn what follows them around, on the screen and in a subject line; marks and joiners stay. */
const BIDI_OVERRIDES = /[\u202A-\u202E\u2066-\u2069]/g;

/** One line without controls: what becomes a header or a row can't begin another one. */
function singleLine(text: string): string {
  return text
    .toWellFormed()
    .replace(BIDI_OVERRIDES, '')
    .replace(/[\s\u0085]+/g, ' ')
    .replace(/\p{Cc}/gu, '')
    .trim();
}

/** Lines and tabs as they are, other controls gone. */
function longText(text: string): string {
  return text
    .toWellFormed()
    .replace(BIDI_OVERRIDES, '')
    .replace(/\r\n?|[\u0085\u2028\u2029]/g, '\n')
    .replace(/[^\P{Cc}\n\t]/gu, '')
    .trim();
}

function required(most: number) {
  const should = `expected 1 to ${most} characters`;
  return z
    .string(should)
    .transform(singleLine)
    .pipe(z.string().min(1, should).max(most, should))
    .meta({ minLength: 1, maxLength: most });
}

/** Absent, null, empty and blank are the same: a form sends each of its fields. */
function optional(most: number, clean: (text: string) => string) {
  const should = `expected at most ${most} characters`;
  return z
    .string(should)
    .nullish()
    .transform((text) => clean(text ?? '') || undefined)
    .pipe(z.string().max(most, should).optional())
    .meta({ maxLength: most });
}

/** What RFC 5321 leaves for a path, less its brackets. */
const EMAIL_MOST = 254;

const asciiEmail = z.email().max(EMAIL_MOST);

/** Letters of any language in the domain: municipal domains have them. */
const email = required(EMAIL_MOST)
  .pipe(
    z.stringFormat('email', (address) => asciiEmail.safeParse(asciiAddress(address)).success, {
      error: 'expected an e-mail address, for example kari@example.no',
    }),
  )
  .meta({ format: 'idn-email', maxLength: EMAIL_MOST });

/** The rest is a page's own words, spaces and signs too; without any it would say nothing that `kontakt` says. */
const SOURCE = /^(?:chatbot|book-demo|kontakt-.+)$/u;

const source = required(80)
  .pipe(
    z.stringFormat('source', SOURCE, {
      error: 'expected chatbot, book-demo or kontakt- and any text, for example kontakt-om oss',
    }),
  )
  .meta({ pattern: SOURCE.source, maxLength: 80, description: 'Which page or dialogue it comes from.' });

/** What a visitor sends. */
export const inquiryRequest = z.object({
  name: required(120),
  email,
  organization: required(200),
  topic: required(200),
  phone: optional(40, singleLine),
  persona: required(80).meta({
    description: '`innbygger`, `saksbehandler`, `driftsleder`, or another one.',
  }),
  summary: optional(4000, longText),
  message: optional(10_000, longText),
  source,
  contextSummary: optional(8000, longText).meta({
    description: 'What the visitor and the chatbot had talked about.',
  }),
  website: optional(64 * 1024, singleLine).meta({
    description: 'Leave it empty: people do not see this field, and programs that fill in forms do.',
  }),
  redirect: optional(2000, singleLine).meta({
    description: 'Where a page without script wants its visitor back.',
  }),
});

export type InquiryRequest = z.output<typeof inquiryRequest>;

/** Which of the three kinds of source it is, where a visitor's own words may not go. */
export function sourceKind({ source: name }: Pick<InquiryRequest, 'source'>): string {
  return name.startsWith('kontakt-') ? 'kontakt' : name;
}
