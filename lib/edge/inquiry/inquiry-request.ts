import * as z from 'zod';

import { asciiAddress } from '../../platform/mail/address.ts';
import { isInvisible } from '../../platform/visible.ts';
import { TOKEN_NAME } from '../turnstile.ts';

/** Controls that reverse the text after them. Marks and joiners stay. */
const BIDI_OVERRIDES = /[\u202A-\u202E\u2066-\u2069]/g;

/**
 * Makes one line without control characters, so that a value cannot start another header or row. A text of which nothing
 * is visible becomes empty.
 */
function singleLine(text: string): string {
  if (isInvisible(text)) return '';
  return text
    .toWellFormed()
    .replace(BIDI_OVERRIDES, '')
    .replace(/[\s\u0085]+/g, ' ')
    .replace(/\p{Cc}/gu, '')
    .trim();
}

/** Keeps line breaks and tabs, and removes other control characters. A text of which nothing is visible becomes empty. */
function longText(text: string): string {
  if (isInvisible(text)) return '';
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

/** Absent, null, empty and blank mean the same, because a form sends all its fields. */
function optional(most: number, clean: (text: string) => string) {
  const should = `expected at most ${most} characters`;
  return z
    .string(should)
    .nullish()
    .transform((text) => clean(text ?? '') || undefined)
    .pipe(z.string().max(most, should).optional())
    .meta({ maxLength: most });
}

/** The longest path of RFC 5321, without its brackets. */
const EMAIL_MOST = 254;

const asciiEmail = z.email().max(EMAIL_MOST);

/** Allows letters of any language in the domain, as municipal domains have. */
const email = required(EMAIL_MOST)
  .pipe(
    z.stringFormat('email', (address) => asciiEmail.safeParse(asciiAddress(address)).success, {
      error: 'expected an e-mail address, for example kari@example.no',
    }),
  )
  .meta({ format: 'idn-email', maxLength: EMAIL_MOST });

/** A page may put any text after `kontakt-`, but not leave it empty. */
const SOURCE = /^(?:chatbot|book-demo|kontakt-.+)$/u;

const source = required(80)
  .pipe(
    z.stringFormat('source', SOURCE, {
      error: 'expected chatbot, book-demo or kontakt- and any text, for example kontakt-om oss',
    }),
  )
  .meta({
    pattern: SOURCE.source,
    maxLength: 80,
    description: 'The page or dialogue that sends the inquiry.',
  });

/**
 * The field that only programs fill in. Its name says nothing, because browsers and password managers fill in fields whose
 * names they know: as `website` it caught people.
 */
export const TRAP = 'felt_q7x2';

/** The body of `POST /api/inquiry`. */
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
    description: 'The visitor’s conversation with the chatbot.',
  }),
  [TRAP]: optional(64 * 1024, singleLine).meta({
    description: 'A trap. Leave it empty: people do not see this field, programs that fill in forms do.',
  }),
  redirect: optional(2000, singleLine).meta({
    description: 'The page to redirect the visitor of a form to.',
  }),
  [TOKEN_NAME]: optional(4000, singleLine).meta({
    description: 'The token of Turnstile’s widget, which adds the field to its form.',
  }),
});

export type InquiryRequest = z.output<typeof inquiryRequest>;
