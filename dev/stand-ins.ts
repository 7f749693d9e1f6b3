import { TEST_SECRET } from '../lib/edge/turnstile.ts';
import { readConfig } from '../lib/platform/config.ts';
import { startDirectory } from './stand-ins/directory.ts';
import { startMessagesApi } from './stand-ins/messages-api.ts';
import { startSendGrid } from './stand-ins/sendgrid.ts';
import type { SendGridStandIn } from './stand-ins/sendgrid.ts';
import { startTurnstile } from './stand-ins/turnstile.ts';

/** The stand-ins for hosted services. */
export interface StandIns {
  readonly chat: boolean;
  /** The page with the sent mails; null when a real key is set. */
  readonly mailUrl: string | null;
  /** The directory that operators sign in with; null where a real one is set. */
  readonly directory: string | null;
  /** The mails sent to the stand-in, oldest first. */
  readonly mails: () => { readonly to: string; readonly subject: string }[];
}

export const NO_STAND_INS: StandIns = { chat: false, mailUrl: null, directory: null, mails: () => [] };

/**
 * Starts a stand-in for each hosted service without a key, and for Turnstile with one of Cloudflare's secrets for tests,
 * and points the functions at it.
 *
 * @param port for the page with the mails, if it is free, and the next one for the directory.
 */
export async function startStandIns(port: number): Promise<StandIns> {
  const { standIns, chat, turnstile, operators } = readConfig();
  if (!standIns) return NO_STAND_INS;
  if (!chat.apiKey) {
    const messages = await startMessagesApi({ port: 0 });
    process.env['ANTHROPIC_API_KEY'] = 'stand-in';
    process.env['ANTHROPIC_BASE_URL'] = messages.url;
  }
  if (turnstile && turnstile.baseUrl === undefined && TEST_SECRET.test(turnstile.secret))
    process.env['TURNSTILE_BASE_URL'] = (await startTurnstile()).url;
  let mail: SendGridStandIn | undefined;
  if (!process.env['SENDGRID_API_KEY']) {
    mail = await listenNear(port, (free) => startSendGrid({ port: free }));
    process.env['SENDGRID_API_KEY'] = 'SG.stand-in';
    process.env['SENDGRID_BASE_URL'] = mail.url;
    process.env['ADMIN_EMAIL'] ??= 'post@solvik.example.no';
    process.env['FROM_EMAIL'] ??= 'ikke-svar@solvik.example.no';
  }
  const directory = operators.directory
    ? null
    : await listenNear(port && port + 1, (free) => startDirectory({ port: free }));
  Object.assign(process.env, directory?.variables);
  return {
    chat: !chat.apiKey,
    mailUrl: mail?.url ?? null,
    directory: directory?.issuer ?? null,
    mails: () =>
      (mail?.mails ?? []).map(({ personalizations, subject }) => ({
        to: personalizations.flatMap(({ to }) => to.map(({ email }) => email)).join(', '),
        subject,
      })),
  };
}

/** Listens on the port, or on any other if it is taken: an optional page must not stop the server. */
export async function listenNear<Server>(
  port: number,
  listen: (port: number) => Promise<Server>,
): Promise<Server> {
  try {
    return await listen(port);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return await listen(0);
    throw error;
  }
}
