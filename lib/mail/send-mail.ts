import type sendgrid from '@sendgrid/mail';
import * as z from 'zod';

import type { MailSettings } from '../config.ts';
import { isNeverConnected } from '../http/no-connection.ts';
import { SECOND, sleep } from '../time.ts';
import { asciiAddress } from './address.ts';

/** A mail to the administrator, or to one other person. */
export interface Mail {
  /** The person; left out, it is the administrator, with a copy to whom the settings name. */
  readonly to?: string;
  readonly senderName: string;
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  /** Whose mail it is in the end: an answer goes to them. */
  readonly replyTo?: { readonly email: string; readonly name: string };
  /** What the provider's statistics count it as: a fixed few, never what a visitor wrote. */
  readonly categories: readonly string[];
  /** Finds the mail in the provider's activity log. */
  readonly reference: string;
}

type MailFailure = 'email_failed' | 'email_timeout' | 'email_unreachable';

/**
 * The provider has not accepted the mail; after `email_timeout` it may have all the same.
 *
 * Has no `cause`: the SDK's errors carry the key and the whole mail, and a log or a debugger would show them.
 */
export class MailNotSent extends Error {
  readonly code: MailFailure;
  /** What the connection failed with, `ECONNREFUSED` for one. */
  readonly reason: string | undefined;
  /** The provider's answer, if there was one. */
  readonly status: number | undefined;
  /** The fields of the provider's API that it refused. */
  readonly fields: readonly string[];
  /**
   * Whether the provider may have worked on it: not without a connection, and not where it has refused the mail (4xx).
   */
  readonly hasReachedProvider: boolean;

  constructor(code: MailFailure, details: MailFailureDetails) {
    super('the mail provider has not accepted the mail');
    this.name = 'MailNotSent';
    this.code = code;
    this.reason = details.reason;
    this.status = details.status;
    this.fields = details.fields ?? [];
    this.hasReachedProvider =
      details.hasReachedProvider ??
      (code === 'email_failed' ? (details.status ?? 500) >= 500 : !isNeverConnected(details.reason));
  }
}

interface MailFailureDetails {
  readonly reason?: string | undefined;
  readonly status?: number | undefined;
  readonly fields?: readonly string[];
  /** Said of the first try, where the second one says nothing of it. */
  readonly hasReachedProvider?: boolean;
}

/** The provider answers in some 200 ms; a visitor who waits longer than this has gone. For each of two tries. */
const TIMEOUT_MS = 8 * SECOND;

/** Lets a restarted server or a full window pass, and is not noticed by a person. */
const RETRY_PAUSE_MS = 500;

/**
 * Sends a mail through SendGrid.
 *
 * Tried a second time only when the first was surely not accepted, so that nobody gets it twice.
 *
 * @param timeoutMs for each try, for tests.
 * @throws MailNotSent
 */
export async function sendMail(settings: MailSettings, mail: Mail, timeoutMs = TIMEOUT_MS): Promise<void> {
  try {
    await handOver(settings, mail, timeoutMs);
  } catch (error) {
    if (!(error instanceof MailNotSent) || !surelyNotAccepted(error)) throw error;
    await sleep(RETRY_PAUSE_MS);
    await handOver(settings, mail, timeoutMs).catch((second: unknown) => {
      if (!error.hasReachedProvider || !(second instanceof MailNotSent)) throw second;
      const { code, reason, status, fields } = second;
      throw new MailNotSent(code, { reason, status, fields, hasReachedProvider: true });
    });
  }
}

async function handOver(settings: MailSettings, mail: Mail, timeoutMs: number): Promise<void> {
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    const service = await connected(settings, timeoutMs, deadline);
    // A new object every time: the SDK writes into what it is given.
    await service.send(message(settings, mail));
  } catch (error) {
    throw asMailNotSent(error, deadline);
  }
}

/** What the SDK's types leave out: its class, and the HTTP client, whose requests are axios's. */
interface Sdk {
  readonly MailService: new () => Service;
}

type Service = typeof sendgrid & {
  readonly client: {
    setApiKey(key: string): void;
    setDataResidency(region: 'eu' | 'global'): unknown;
    setDefaultRequest(values: Readonly<Record<string, unknown>>): unknown;
  };
};

/** A service with a client of its own: the SDK's shared one would keep another caller's key. */
async function connected(settings: MailSettings, timeoutMs: number, deadline: AbortSignal): Promise<Service> {
  const { default: sdk } = await import('@sendgrid/mail');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see Sdk
  const service = new (sdk as unknown as Sdk).MailService();
  const { client } = service;
  // First: it puts the base URL back.
  client.setApiKey(settings.apiKey);
  client.setDataResidency(settings.residency);
  client.setDefaultRequest({
    ...(settings.baseUrl !== undefined && { baseUrl: settings.baseUrl }),
    timeout: timeoutMs,
    // The timeout starts anew with every byte.
    signal: deadline,
    // The API has none, and they would take the mail elsewhere.
    maxRedirects: 0,
    maxContentLength: 64 * 1024,
  });
  return service;
}

type Message = Parameters<typeof sendgrid.send>[0];

const OFF = { enable: false };

function message(settings: MailSettings, mail: Mail): Message {
  const to = asciiAddress(mail.to ?? settings.admin);
  const cc = settings.cc === undefined || mail.to !== undefined ? undefined : asciiAddress(settings.cc);
  return {
    to: { email: to },
    // The provider refuses a mail that names an address twice.
    ...(cc !== undefined && cc.toLowerCase() !== to.toLowerCase() && { cc: { email: cc } }),
    from: { email: asciiAddress(settings.from), name: mail.senderName },
    ...(mail.replyTo && { replyTo: named(mail.replyTo) }),
    subject: mail.subject,
    text: mail.text,
    html: mail.html,
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

function named({ email, name }: { readonly email: string; readonly name: string }) {
  const shown = displayName(name);
  return { email: asciiAddress(email), ...(shown !== '' && { name: shown }) };
}

/** Without the signs that have a meaning in a header (RFC 5322, `specials`): the name is in the mail as it was written. */
function displayName(name: string): string {
  return name
    .replace(/[\p{Cc}"\\<>()[\]:;@,]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

/** What can be told of the SDK's two kinds of error: an answer's `code` is its status, a connection's is a word. */
const sdkError = z.object({
  code: z.union([z.number(), z.string()]).optional().catch(undefined),
  response: z
    .object({
      status: z.number().optional().catch(undefined),
      body: z
        .object({ errors: z.array(z.object({ field: z.string().nullish() })) })
        .optional()
        .catch(undefined),
    })
    .optional()
    .catch(undefined),
});

const TIMEOUTS: ReadonlySet<string> = new Set(['ECONNABORTED', 'ETIMEDOUT', 'ERR_CANCELED']);

function asMailNotSent(error: unknown, deadline: AbortSignal): MailNotSent {
  const { code, response } = sdkError.safeParse(error).data ?? {};
  const reason = typeof code === 'string' ? code : undefined;
  if (deadline.aborted || TIMEOUTS.has(reason ?? '')) {
    return new MailNotSent('email_timeout', { reason: reason ?? 'ERR_CANCELED' });
  }
  const status = typeof code === 'number' ? code : response?.status;
  if (status !== undefined) {
    const fields = (response?.body?.errors ?? []).flatMap(({ field }) => known(field));
    return new MailNotSent('email_failed', { status, fields });
  }
  return new MailNotSent('email_unreachable', { reason: reason ?? 'unknown' });
}

/** Only what looks like a path of the API, `personalizations.0.cc`: not whatever an answer says. */
function known(field: string | null | undefined): string[] {
  return field && /^[a-z0-9_.]{1,80}$/.test(field) ? [field] : [];
}

function surelyNotAccepted({ code, status = 0, reason }: MailNotSent): boolean {
  if (code === 'email_failed') return status === 429 || status >= 500;
  return code === 'email_unreachable' && isNeverConnected(reason);
}
