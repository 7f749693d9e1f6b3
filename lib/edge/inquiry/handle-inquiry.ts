import { createHash, randomUUID } from 'node:crypto';

import type { MailSettings } from '../../platform/config.ts';
import type { Cors } from '../../platform/http/cors.ts';
import { wantsPage } from '../../platform/http/negotiate.ts';
import { Problem } from '../../platform/http/problem.ts';
import type { Budgeted } from '../../platform/http/visit.ts';
import { log } from '../../platform/log.ts';
import { MailNotSent, sendMail } from '../../platform/mail/send-mail.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import type { MailOutcome } from '../counts.ts';
import { sentAnswer } from './form-answers.ts';
import { recordMailed } from './inquiry-event.ts';
import type { InquiryEvent } from './inquiry-event.ts';
import { inquiryMail } from './inquiry-mail.ts';
import { sourceKind, TRAP } from './inquiry-request.ts';
import { KeyReused } from './once.ts';
import type { Once } from './once.ts';

export interface Inquiry extends Omit<InquiryEvent, 'inquiryId'> {
  readonly request: Request;
  /** Identifies the sender, because two visitors may send the same words. */
  readonly visitor: string;
  readonly mail: MailSettings | undefined;
  readonly sent: Once;
  /** Counts one mail against the daily budget of all visitors. @throws Problem 429 */
  readonly takeBudget: () => Promise<Budgeted>;
  /** Counts what became of the mail. */
  readonly count: (outcome: MailOutcome) => void;
  /** The origins that the visitor of a form may be redirected to. */
  readonly cors: Cors;
  /** Time limit of each attempt to send the mail; see `sendMail`. */
  readonly timeoutMs?: number;
}

/**
 * Sends a visitor's inquiry to the administrator as a mail and answers when the mail provider has accepted it.
 *
 * An inquiry with the same `Idempotency-Key`, or with the same content from the same visitor, is sent once in ten
 * minutes; a repetition gets the same answer. An accepted inquiry also becomes the event `inquiry.submitted`. Only
 * mails that may have reached the mail provider count against the day's budget.
 *
 * @throws Problem 503 `email_not_configured`, 422 `idempotency_key_reused`, 429, 502 `email_failed`, `email_timeout` or
 *   `email_unreachable`
 */
export async function handleInquiry(inquiry: Inquiry): Promise<Response> {
  if (inquiry.body[TRAP] !== undefined) {
    log('info', 'inquiry dropped: the trap was filled in', { requestId: inquiry.requestId });
    return success(inquiry, false);
  }
  const settings = requireMail(inquiry.mail);
  try {
    return success(inquiry, await sendOnce(inquiry, settings));
  } catch (error) {
    throw asProblem(error, inquiry.requestId);
  }
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
  const sameBody = {
    key: digest('body', visitor, fingerprint),
    fingerprint,
    run: () => send(inquiry, settings),
  };
  const idempotencyKey = request.headers.get('idempotency-key')?.trim();
  if (!idempotencyKey) return (await sent.once(sameBody)).isReplay;
  // Each visitor has keys of their own. A page that makes a new key at each click still sends only once.
  let isSameBody = false;
  const { isReplay } = await sent.once({
    key: digest('key', visitor, idempotencyKey),
    fingerprint,
    run: async () => {
      isSameBody = (await sent.once(sameBody)).isReplay;
    },
  });
  return isReplay || isSameBody;
}

/** Hashes a list as JSON, which is different for different lists. */
function digest(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

async function send(inquiry: Inquiry, settings: MailSettings): Promise<void> {
  const { body, requestId, takeBudget, timeoutMs, count } = inquiry;
  const inquiryId = randomUUID();
  const budgeted = await takeBudget();
  await recordMailed({ ...inquiry, inquiryId }, async () => {
    const mail = inquiryMail(body, { inquiryId, receivedAt: new Date() });
    try {
      await sendMail(settings, mail, timeoutMs);
    } catch (error) {
      if (error instanceof MailNotSent) count(error.code);
      if (error instanceof MailNotSent && error.hasReachedProvider) budgeted.spend();
      else await budgeted.giveBack();
      throw error;
    }
    count('mailed');
    budgeted.spend();
    log('info', 'inquiry sent', { inquiryId, source: sourceKind(body), requestId });
  });
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
  if (!(error instanceof MailNotSent)) return error;
  const { code, reason, status, fields } = error;
  log('error', 'inquiry not sent', { code, reason, status, fields, requestId });
  return new Problem(code);
}
