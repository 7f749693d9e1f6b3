import { createHash } from 'node:crypto';

import { readable } from '../../platform/config.ts';
import type { AlertSettings, MailSettings } from '../../platform/config.ts';
import { deepestCodeOf } from '../../platform/http/no-connection.ts';
import { MailNotSent, sendMail } from '../../platform/mail/send-mail.ts';
import { signedHeaders, signingKey } from '../../platform/schemes/signing.ts';
import { SECOND } from '../../platform/time.ts';
import type { ChannelName } from './claim-alerts.ts';
import { htmlOf, jsonOf, textOf } from './message.ts';
import type { Message } from './message.ts';

/** A configured way to reach operators. */
export interface Channel {
  readonly name: ChannelName;
  /** Where it leads, without what is secret or personal in it. */
  readonly to: string;
  /** Sends a message. @throws AlertNotSent */
  readonly send: (message: Message) => Promise<void>;
}

/** A channel did not accept a message; after a timeout it may have. */
export class AlertNotSent extends Error {
  readonly code = 'alert_not_sent';
}

/** The configured channels. One whose variables are wrong is left out; `problemsOf` names it. */
export function channelsOf(settings: AlertSettings): readonly Channel[] {
  const mail = readable(() => settings.mail);
  const webhook = readable(() => settings.webhook);
  return [...(mail ? [mailChannel(mail)] : []), ...(webhook ? [webhookChannel(webhook)] : [])];
}

/** Says what is wrong with each variable that is; none of its values is repeated. */
export function problemsOf(settings: AlertSettings): readonly string[] {
  const problems: string[] = [];
  for (const part of ['mail', 'webhook', 'heartbeatUrl', 'publicUrl'] as const)
    readable(
      () => settings[part],
      ({ message }) => problems.push(message),
    );
  return problems;
}

function mailChannel(settings: MailSettings): Channel {
  return {
    name: 'mail',
    // The rest is a person's.
    to: `…@${settings.admin.slice(settings.admin.lastIndexOf('@') + 1)}`,
    async send(message) {
      const mail = {
        to: settings.admin,
        senderName: 'Postbud',
        subject: message.subject,
        html: htmlOf(message),
        text: textOf(message),
        categories: ['alert'],
        reference: idOf(message),
      };
      await sendMail(settings, mail).catch((error: unknown) => {
        if (!(error instanceof MailNotSent)) throw error;
        const { code, status, reason } = error;
        throw new AlertNotSent([code, status, reason].filter(Boolean).join(' '), { cause: error });
      });
    },
  };
}

/** A chat answers in some 200 ms; one that hangs must be given up well before the alert's lease ends. */
const TIMEOUT_MS = 10 * SECOND;

function webhookChannel({ url, secret }: NonNullable<AlertSettings['webhook']>): Channel {
  return {
    name: 'webhook',
    // A chat's address is a password.
    to: new URL(url).host,
    async send(message) {
      const now = Date.now();
      const body = JSON.stringify(jsonOf(message, now));
      const status = await post(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(secret !== undefined && signedHeaders(signingKey(secret), idOf(message), body, now)),
        },
        body,
        // A redirect would send it to an address that nobody configured.
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      if (status < 200 || status > 299) throw new AlertNotSent(`answered ${status}`);
    },
  };
}

async function post(url: string, request: RequestInit & { readonly signal: AbortSignal }): Promise<number> {
  try {
    const response = await fetch(url, request);
    await response.body?.cancel();
    return response.status;
  } catch (error) {
    if (request.signal.aborted) throw new AlertNotSent('did not answer in time', { cause: error });
    throw new AlertNotSent(`unreachable ${deepestCodeOf(error) ?? ''}`.trim(), { cause: error });
  }
}

/** The same for the same revisions of the same incidents, so that a receiver knows a repetition. */
function idOf({ incidents }: Message): string {
  const hash = createHash('sha256');
  for (const { id, revision } of incidents) hash.update(`${id} ${revision} `);
  if (incidents.length === 0) hash.update(String(Date.now()));
  return `alert_${hash.digest('base64url').slice(0, 32)}`;
}
