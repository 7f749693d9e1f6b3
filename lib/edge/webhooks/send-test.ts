import * as z from 'zod';

import type { TestWebhook } from '../../../drizzle/schema.ts';
import { readable } from '../../platform/config.ts';
import type { Config } from '../../platform/config.ts';
import { SECOND } from '../../platform/time.ts';
import type { WebhookSettings } from '../../platform/webhook-settings.ts';
import { sign } from './sign.ts';
import { isUsableSecret } from './verify.ts';

interface TestedEndpoint {
  /** The endpoint's name. */
  readonly provider: string;
  /** Of the deployment itself, never an address that a caller named: the request is signed. */
  readonly origin: string;
  readonly smokeTestId: string;
}

/** The type in the bodies of test webhooks; it means nothing to any handler. */
const TYPE = 'postbud.smoke_test';

/** Less than a function lives. */
const LIMIT_MS = 10 * SECOND;

/** Signs test webhooks as the providers of a deployment do. */
export interface TestSender {
  /** Whether the endpoint has a secret to sign with: a public key only verifies. */
  readonly canSign: (provider: string) => boolean;
  readonly send: (tested: TestedEndpoint) => Promise<TestWebhook>;
}

export function testSender(settings: Config['webhooks']): TestSender {
  return {
    canSign(provider) {
      const own = readable(() => settings[provider]);
      return own !== undefined && signingSecret(own) !== undefined;
    },
    send: async (tested) => await sendTestWebhook(tested, settings[tested.provider]!),
  };
}

/** Finds a secret to sign with; undefined where none is usable, or only public keys are set, which verify. */
export function signingSecret({ scheme, secrets }: WebhookSettings): string | undefined {
  return secrets.find((secret) => isUsableSecret(scheme, secret) && !isPublicKey(scheme, secret));
}

const isPublicKey = (scheme: string, secret: string) => scheme === 'standard' && secret.startsWith('whpk_');

/**
 * Sends a test webhook to an endpoint of this deployment, signed with its own secret, over the way that the provider's take.
 *
 * Never rejects. Nothing of the answer but its status, its code and the event's id is passed on.
 */
async function sendTestWebhook(
  { provider, origin, smokeTestId }: TestedEndpoint,
  settings: WebhookSettings,
): Promise<TestWebhook> {
  const url = `${origin}/webhooks/${provider}`;
  const id = `smoke_${smokeTestId}`;
  const body = Buffer.from(JSON.stringify(bodyOf(id)));
  const at = Math.floor(Date.now() / SECOND);
  const began = performance.now();
  const ended = (rest: Pick<TestWebhook, 'status' | 'receiptId' | 'problem'>): TestWebhook => ({
    provider,
    durationMs: Math.round(performance.now() - began),
    ...rest,
  });
  try {
    const response = await fetch(url, {
      method: 'POST',
      // Providers do not follow it either.
      redirect: 'manual',
      headers: {
        'content-type': 'application/json',
        'x-request-id': smokeTestId,
        ...sign(settings.scheme, body, {
          secret: signingSecret(settings) ?? '',
          id,
          at,
          url: settings.url ?? url,
          header: settings.signatureHeader,
        }),
      },
      body,
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    const { status } = response;
    const text = await response.text();
    const accepted = status === 200 ? received.safeParse(jsonIn(text)) : null;
    if (accepted?.success) return ended({ status, receiptId: accepted.data.eventId, problem: null });
    return ended({ status, receiptId: null, problem: problemOf(response, text) });
  } catch (error) {
    return ended({ status: null, receiptId: null, problem: unanswered(error, new URL(url).host) });
  }
}

/** Has the fields in which each scheme finds an id and a type. */
function bodyOf(id: string) {
  return {
    id,
    type: TYPE,
    event: TYPE,
    name: TYPE,
    reference: id,
    pspReference: id,
    test: true,
    note: 'A smoke test of this endpoint by its own deployment. It means nothing.',
  };
}

const received = z.object({ received: z.literal(true), eventId: z.string().max(2000) });
const refused = z.object({ code: z.string().regex(/^[a-z_]{1,60}$/) });

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function problemOf(response: Response, text: string): string {
  const { status, headers } = response;
  const problem = refused.safeParse(jsonIn(text));
  if (problem.success)
    return ADVICE.get(problem.data.code) ?? `the endpoint refused it: ${problem.data.code}`;
  if (status >= 300 && status < 400) return redirected(headers.get('location'), response.url);
  if (status === 401 || status === 403)
    return 'the platform’s deployment protection answered, not Postbud; it refuses providers too: allow /webhooks/* there';
  return 'something other than Postbud answered: check PUBLIC_URL, or what stands in front of the deployment';
}

const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'invalid_signature',
    'the endpoint does not accept the signature of its own secret: another deployment runs at this address, or something on the way changes the body, the host or the headers',
  ],
  [
    'webhook_not_configured',
    'the deployment at this address has no secret for it: variables take effect with the next deployment',
  ],
  ['database_unavailable', 'the endpoint could not store it: its database did not answer'],
  ['misconfigured', 'the deployment at this address has an invalid variable: see its log'],
]);

function redirected(location: string | null, from: string): string {
  const to = location !== null && URL.canParse(location, from) ? new URL(location, from).host : 'elsewhere';
  return `the address redirects to ${to}, and providers do not follow: register the last address, and set PUBLIC_URL to it`;
}

function unanswered(error: unknown, host: string): string {
  if (error instanceof Error && error.name === 'TimeoutError')
    return `${host} did not answer within ${LIMIT_MS / SECOND} s`;
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
  return `${host} cannot be reached from the deployment${code}`;
}
