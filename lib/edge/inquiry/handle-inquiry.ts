import { createHash, randomUUID } from 'node:crypto';

import { inquiryMail, sourceKind } from '../../components/inquiries/inquiry-mail.ts';
import type { KeptInquiry } from '../../components/inquiries/inquiry-mail.ts';
import type { MailSettings } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import type { Cors } from '../../platform/http/cors.ts';
import { wantsPage } from '../../platform/http/negotiate.ts';
import { Problem } from '../../platform/http/problem.ts';
import type { Budgeted } from '../../platform/http/visit.ts';
import { log, logError } from '../../platform/log.ts';
import { MailNotSent, sendMail } from '../../platform/mail/send-mail.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import type { MailOutcome } from '../counts.ts';
import { sentAnswer } from './form-answers.ts';
import { TRAP } from './inquiry-request.ts';
import type { InquiryRequest } from './inquiry-request.ts';
import { keepTrapped, keepUntilMailed } from './keep-until-mailed.ts';
import type { Keeping, Tried } from './keep-until-mailed.ts';
import { KeyReused } from './once.ts';
import type { Once } from './once.ts';

export interface Inquiry extends Omit<Keeping, 'database'> {
  readonly request: Request;
  readonly body: InquiryRequest;
  /** Identifies the sender, because two visitors may send the same words. */
  readonly visitor: string;
  readonly mail: MailSettings | undefined;
  readonly sent: Once;
  /** Counts one inquiry against the daily budget of all visitors: of those that are mailed, or trapped. @throws Problem 429 */
  readonly takeBudget: (name: 'inquiry' | 'inquiry-trap') => Promise<Budgeted>;
  /** Counts what became of the mail. */
  readonly count: (outcome: MailOutcome) => void;
  /** The origins that the visitor of a form may be redirected to. */
  readonly cors: Cors;
  /** Undefined where no database is configured. */
  readonly database: (() => Promise<Database>) | undefined;
  /** Time limit of each attempt to send the mail; see `sendMail`. */
  readonly timeoutMs?: number;
}

/**
 * Sends a visitor's inquiry to the administrator as a mail and answers when the mail provider has accepted it.
 *
 * An inquiry with the same `Idempotency-Key`, or with the same content from the same visitor, is sent once in ten
 * minutes; a repetition gets the same answer. An accepted inquiry also becomes the event `inquiry.submitted`. One that is
 * not accepted is kept as an event and mailed later, if there is a database. Only mails that are kept, or may have reached
 * the mail provider, count against the day's budget.
 *
 * @throws Problem 503 `email_not_configured`, 422 `idempotency_key_reused`, 429, 502 `email_failed`, `email_timeout` or
 *   `email_unreachable`
 */
export async function handleInquiry(inquiry: Inquiry): Promise<Response> {
  if (inquiry.body[TRAP] !== undefined) {
    await trap(inquiry);
    return success(inquiry, false);
  }
  const settings = requireMail(inquiry.mail);
  try {
    return success(inquiry, await sendOnce(inquiry, settings));
  } catch (error) {
    throw asProblem(error, inquiry.requestId);
  }
}

async function trap({ body, requestId, database, waitUntil, takeBudget }: Inquiry): Promise<void> {
  if (!database)
    return log('warn', 'an inquiry fell into the trap and is lost: there is no database', { requestId });
  await takeBudget('inquiry-trap');
  await keepTrapped(toKeep(body), { database, requestId, waitUntil });
  log('info', 'an inquiry fell into the trap', { requestId });
}

/** Setting a variable takes a deployment. */
const NOT_CONFIGURED_RETRY_SECONDS = (10 * MINUTE) / SECOND;

function requireMail(settings: MailSettings | undefined): MailSettings {
  if (settings) return settings;
  throw new Problem('email_not_configured', { retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS });
}

/** @returns whether another request has sent it, or is sending it. */
async function sendOnce(inquiry: Inquiry, settings: MailSettings): Promise<boolean> {
  const { request, visitor, sent } = inquiry;
  const { [TRAP]: _trap, redirect: _redirect, ...fields } = inquiry.body;
  const fingerprint = digest(JSON.stringify(fields));
  const idempotencyKey = request.headers.get('idempotency-key')?.trim();
  const bodyKey = digest('body', visitor, fingerprint);
  // Each visitor has keys of their own.
  const namedKey = idempotencyKey ? digest('key', visitor, idempotencyKey) : undefined;
  let wasMailed = false;
  const sameBody = {
    key: bodyKey,
    fingerprint,
    run: async () => {
      wasMailed = await send(inquiry, settings, namedKey === undefined ? [bodyKey] : [bodyKey, namedKey]);
    },
  };
  if (namedKey === undefined) return (await sent.once(sameBody)).isReplay || wasMailed;
  // A page that makes a new key at each click still sends only once.
  let isSameBody = false;
  const { isReplay } = await sent.once({
    key: namedKey,
    fingerprint,
    run: async () => {
      isSameBody = (await sent.once(sameBody)).isReplay;
    },
  });
  return isReplay || isSameBody || wasMailed;
}

/** Hashes a list as JSON, which is different for different lists. */
function digest(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** @returns whether it had been mailed before. @throws NotMailed, KeyReused */
async function send(
  inquiry: Inquiry,
  settings: MailSettings,
  keys: readonly [string, ...string[]],
): Promise<boolean> {
  const { body, requestId, takeBudget, count } = inquiry;
  const kept = toKeep(body);
  const budgeted = await takeBudget('inquiry');
  const tried = await tryToSend(inquiry, settings, kept, keys).catch(async (error: unknown) => {
    await budgeted.giveBack();
    throw error;
  });
  if (isCounted(tried)) budgeted.spend();
  else await budgeted.giveBack();
  if (tried.error instanceof MailNotSent) count(tried.error.code);
  if ('error' in tried) throw new NotMailed(tried.error, tried.isKept);
  if (tried.wasMailed) return true;
  count('mailed');
  log('info', 'inquiry sent', { inquiryId: kept.inquiryId, source: sourceKind(body), requestId });
  return false;
}

function toKeep({ [TRAP]: _trap, redirect: _redirect, ...fields }: InquiryRequest): KeptInquiry {
  return { ...fields, inquiryId: randomUUID(), receivedAt: new Date().toISOString() };
}

async function tryToSend(
  { database, requestId, waitUntil, timeoutMs }: Inquiry,
  settings: MailSettings,
  kept: KeptInquiry,
  keys: readonly [string, ...string[]],
): Promise<Tried> {
  const sendNow = async () => {
    await sendMail(settings, inquiryMail(kept, new Date(kept.receivedAt)), timeoutMs);
  };
  if (database)
    return await keepUntilMailed(kept, { settings, keys, send: sendNow }, { database, requestId, waitUntil });
  const tried = { isKept: false, isSecond: false, wasMailed: false };
  return await sendNow().then(
    () => tried,
    (error: unknown) => ({ ...tried, error }),
  );
}

/** Whether a try counts as a mail of the day. What is kept becomes one, and was counted when it was kept. */
function isCounted({ isSecond, isKept, error }: Tried): boolean {
  return !isSecond && (isKept || error === undefined || (error instanceof MailNotSent && error.mayBeSent));
}

/** The mail was not accepted, or nobody knows whether it was. */
class NotMailed extends Error {
  readonly isKept: boolean;

  constructor(cause: unknown, isKept: boolean) {
    super('an inquiry was not mailed', { cause });
    this.name = 'NotMailed';
    this.isKept = isKept;
  }
}

function success({ request, body, cors }: Inquiry, isReplay: boolean): Response {
  const response = wantsPage(request)
    ? sentAnswer(request, body.redirect, cors)
    : Response.json({ ok: true });
  if (isReplay) response.headers.set('idempotent-replayed', 'true');
  return response;
}

/** Makes a problem of its own for each request, even where requests share one failure: their request ids differ. */
function asProblem(error: unknown, requestId: string): unknown {
  if (error instanceof KeyReused) return new Problem(error.code);
  const cause = error instanceof NotMailed ? error.cause : error;
  const isKept = error instanceof NotMailed && error.isKept;
  if (!(cause instanceof MailNotSent)) {
    if (!isKept) return cause;
    // The database went away while the visitor's second try was mailed.
    logError('an inquiry is kept, and may have been mailed', cause, { requestId });
    return asProblem(new NotMailed(new MailNotSent('email_timeout', {}), true), requestId);
  }
  const { code, reason, status, fields, mayBeSent } = cause;
  log('error', 'inquiry not sent', { code, reason, status, fields, mayBeSent, isKept, requestId });
  const consequence = mayBeSent ? 'The mail may have been sent all the same.' : 'Nothing was sent.';
  const advice = isKept
    ? 'The inquiry is kept, and is mailed as soon as the provider takes it: do not send it again.'
    : 'The inquiry is not kept: send it again later.';
  const detail = `${FAILURES[code]} ${consequence} ${advice}`;
  return new Problem(code, { detail, members: { kept: isKept, mayBeSent } });
}

const FAILURES = {
  email_failed: 'The mail provider did not accept the mail.',
  email_timeout: 'The mail provider did not answer in time.',
  email_unreachable: 'There was no connection to the mail provider, or it broke.',
} as const;
