import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

import { z } from 'zod';

import { asksForThisMachine, NOT_LOCAL } from '../local-names.ts';

/** A number is an HTTP status; a word is another behaviour. */
export type TurnstileBehaviour = 'verify' | 'hang' | 'reset' | 'babble' | 'fail' | number;

const asked = z.object({
  secret: z.string(),
  response: z.string(),
  remoteip: z.string().optional(),
  idempotency_key: z.uuid().optional(),
});

export interface TurnstileStandIn {
  /** For `TURNSTILE_BASE_URL`. */
  readonly url: string;
  readonly asked: readonly z.output<typeof asked>[];
  /** Sets the behaviour of all calls from now on, and what their answers say of the token. */
  readonly behave: (how: TurnstileBehaviour, said?: { hostname?: string; action?: string }) => void;
  readonly close: () => Promise<void>;
}

/**
 * Starts a local server that verifies tokens as Cloudflare does: each once.
 *
 * Cloudflare's secrets for tests answer as documented: `1x…` accepts any token again and again, `2x…` refuses all, and
 * of `3x…` every token was used before.
 *
 * @see https://developers.cloudflare.com/turnstile/troubleshooting/testing/
 */
export async function startTurnstile(): Promise<TurnstileStandIn> {
  const received: z.output<typeof asked>[] = [];
  const spent = new Set<string>();
  let behaviour: TurnstileBehaviour = 'verify';
  let said = {};

  const answerTo = ({ secret, response }: z.output<typeof asked>): object => {
    const failed = (code: string) => ({ success: false, 'error-codes': [code], messages: [] });
    if (behaviour === 'fail') return failed('internal-error');
    if (secret.startsWith('2x')) return failed('invalid-input-response');
    if (secret.startsWith('3x') || spent.has(response)) return failed('timeout-or-duplicate');
    if (!/^\S{8,}$/.test(secret)) return failed('invalid-input-secret');
    if (!secret.startsWith('1x')) spent.add(response);
    const at = new Date().toISOString();
    return {
      success: true,
      'error-codes': [],
      challenge_ts: at,
      hostname: 'example.com',
      action: '',
      ...said,
    };
  };

  const take = async (
    request: IncomingMessage,
    response: ServerResponse,
    answer: (status: number, body: object) => void,
  ) => {
    const parsed = asked.parse(await json(request));
    received.push(parsed);
    if (behaviour === 'hang') return;
    if (behaviour === 'reset') request.socket.resetAndDestroy();
    else if (behaviour === 'babble')
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>');
    else if (typeof behaviour === 'number') answer(behaviour, {});
    else answer(200, answerTo(parsed));
  };

  const server = createServer((request, response) => {
    const answer = (status: number, body: object) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (!asksForThisMachine(request)) return answer(421, { error: NOT_LOCAL });
    if (request.method !== 'POST' || request.url !== '/turnstile/v0/siteverify') return answer(404, {});
    take(request, response, answer).catch(() =>
      answer(400, { success: false, 'error-codes': ['bad-request'] }),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: received,
    behave(how, answered = {}) {
      behaviour = how;
      said = answered;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
