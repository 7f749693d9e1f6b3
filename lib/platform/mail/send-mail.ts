import * as z from 'zod';

import type { MailSettings } from '../config.ts';
import { deepestCodeOf, isNeverConnected } from '../http/no-connection.ts';
import { SECOND, sleep } from '../time.ts';
import { asciiAddress } from './address.ts';
import type { SendGridMail } from './sendgrid.ts';

/** A mail to the administrator, or to one other person. */
export interface Mail {
  /** The recipient. If left out, the administrator, with a copy to `CC_EMAIL`. */
  readonly to?: string;
  readonly senderName: string;
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  /** The recipient of answers to the mail. */
  readonly replyTo?: { readonly email: string; readonly name: string };
  /** Categories for the provider's statistics: a fixed few, never a visitor's words. */
  readonly categories: readonly string[];
  /** Finds the mail in the provider's activity log. */
  readonly reference: string;
}

type MailFailure = 'email_failed' | 'email_timeout' | 'email_unreachable';

/**
 * The provider did not say that it accepted the mail.
 *
 * Has no `cause`, so that no log or debugger shows the key or the mail with it.
 */
export class MailNotSent extends Error {
  readonly code: MailFailure;
  /** The code of the connection's error, such as `ECONNREFUSED`. */
  readonly reason: string | undefined;
  /** The provider's answer, if there was one. */
  readonly status: number | undefined;
  /** The fields of the provider's API that it refused. */
  readonly fields: readonly string[];
  /**
   * Whether the provider may have accepted the mail all the same. Certainly not without a connection, after a 4xx, or after
   * 503, which says that the request was not handled (RFC 9110). After any other 5xx, and without an answer, nobody knows.
   */
  readonly mayBeSent: boolean;

  constructor(code: MailFailure, { reason, status, fields = [] }: MailFailureDetails) {
    const mayBeSent =
      code === 'email_failed' ? status !== 503 && (status ?? 500) >= 500 : !isNeverConnected(reason);
    super(
      `the mail provider ${said(code, status, reason)}${mayBeSent ? '; the mail may have been sent' : ': the mail was not sent'}`,
    );
    this.name = 'MailNotSent';
    this.code = code;
    this.reason = reason;
    this.status = status;
    this.fields = fields;
    this.mayBeSent = mayBeSent;
  }
}

interface MailFailureDetails {
  readonly reason?: string | undefined;
  readonly status?: number | undefined;
  readonly fields?: readonly string[];
}

function said(code: MailFailure, status: number | undefined, reason: string | undefined): string {
  switch (code) {
    case 'email_failed':
      return `answered ${status}`;
    case 'email_timeout':
      return 'did not answer in time';
    case 'email_unreachable':
      return isNeverConnected(reason) ? `could not be reached (${reason})` : 'ended the connection';
  }
}

/**
 * Time limit of each of two attempts. The provider answers in some 200 ms; a visitor who waits longer than this has
 * left.
 */
const TIMEOUT_MS = 8 * SECOND;

/** Long enough for a restarted server or a full rate limit window, too short for a person to notice. */
const RETRY_PAUSE_MS = 500;

/**
 * Sends a mail through SendGrid.
 *
 * Tries a second time only when the first attempt was certainly not accepted, so that nobody gets the mail twice.
 *
 * @param timeoutMs of each attempt, for tests.
 * @returns the status with which the provider accepted it.
 * @throws MailNotSent
 */
export async function sendMail(settings: MailSettings, mail: Mail, timeoutMs = TIMEOUT_MS): Promise<number> {
  try {
    return await handOver(settings, mail, timeoutMs);
  } catch (error) {
    if (!(error instanceof MailNotSent) || !isWorthASecond(error)) throw error;
    await sleep(RETRY_PAUSE_MS);
    return await handOver(settings, mail, timeoutMs);
  }
}

/** Calls the API once. @throws MailNotSent */
async function handOver(settings: MailSettings, mail: Mail, timeoutMs: number): Promise<number> {
  // Before the limit begins: the first mail of a process waits for the package to be read.
  const { handOverToSendGrid } = await import('./sendgrid.ts');
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    return await handOverToSendGrid(settings, message(settings, mail), signal);
  } catch (error) {
    throw failureOf(error, signal);
  }
}

/** An answer other than 2xx, in an error of the package (4xx and 5xx) or of its HTTP client (redirects). */
const answered = z.union([
  z.object({ code: z.int(), response: z.object({ body: z.unknown() }) }),
  z
    .object({ response: z.object({ status: z.int() }) })
    .transform(({ response }) => ({ code: response.status, response: { body: undefined } })),
]);

function failureOf(error: unknown, signal: AbortSignal): MailNotSent {
  const { data: answer } = answered.safeParse(error);
  if (answer) {
    const { code: status, response } = answer;
    return new MailNotSent('email_failed', { status, fields: fieldsOf(response.body) });
  }
  const reason = deepestCodeOf(error);
  const isTimeout = signal.aborted || reason === 'ETIMEDOUT';
  return new MailNotSent(isTimeout ? 'email_timeout' : 'email_unreachable', { reason });
}

const OFF = { enable: false };

/** @see https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send */
function message(settings: MailSettings, mail: Mail): SendGridMail {
  const to = asciiAddress(mail.to ?? settings.admin);
  const cc = settings.cc === undefined || mail.to !== undefined ? undefined : asciiAddress(settings.cc);
  // The provider refuses a mail that names an address twice.
  const isCopied = cc !== undefined && cc.toLowerCase() !== to.toLowerCase();
  return {
    personalizations: [{ to: [{ email: to }], ...(isCopied && { cc: [{ email: cc }] }) }],
    from: { email: asciiAddress(settings.from), name: mail.senderName },
    ...(mail.replyTo && { replyTo: toAddress(mail.replyTo) }),
    subject: mail.subject,
    content: [
      { type: 'text/plain', value: mail.text },
      { type: 'text/html', value: mail.html },
    ],
    categories: [...mail.categories],
    customArgs: { reference: mail.reference },
    trackingSettings: {
      clickTracking: { enable: false, enableText: false },
      openTracking: OFF,
      subscriptionTracking: OFF,
      ganalytics: OFF,
    },
  };
}

function toAddress({ email, name }: { readonly email: string; readonly name: string }) {
  const shown = displayName(name);
  return { email: asciiAddress(email), ...(shown !== '' && { name: shown }) };
}

/** Removes characters with a meaning in a header (RFC 5322, `specials`). The mail itself has the full name. */
function displayName(name: string): string {
  return name
    .replace(/[\p{Cc}"\\<>()[\]:;@,]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

const refusal = z.object({ errors: z.array(z.object({ field: z.string().nullish() })) });

/** The fields that a refusal names, if they look like paths of the API, such as `personalizations.0.cc`. */
function fieldsOf(answer: unknown): readonly string[] {
  const { data } = refusal.safeParse(answer);
  const fields = data?.errors.map(({ field }) => field ?? '') ?? [];
  return fields.filter((field) => /^[a-z0-9_.]{1,80}$/.test(field));
}

/** Whether the mail was certainly not accepted, and may be half a second later. */
function isWorthASecond({ mayBeSent, status }: MailNotSent): boolean {
  return !mayBeSent && (status === undefined || status === 429 || status === 503);
}
