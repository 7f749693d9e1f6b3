import { probeReturned } from '../../bus/deliveries/operations/probe.ts';
import type { Database } from '../../platform/db/connect.ts';
import { readBody, requireJson } from '../../platform/http/body.ts';
import { Problem } from '../../platform/http/problem.ts';
import { requireAllowed } from '../../platform/http/rate-limit.ts';
import { validated } from '../../platform/http/validated.ts';
import type { Limiter } from '../../platform/rate-limit/limiter.ts';
import { SECOND } from '../../platform/time.ts';
import { verifyWebhook } from '../webhooks/verify.ts';
import { KICK_LIMIT_BYTES, kickBody } from './route.ts';
import { requireRelays } from './run-cron.ts';

export interface KickIntake {
  readonly request: Request;
  /** `KICK_SECRET`: several during a rotation. */
  readonly secrets: readonly string[];
  /** Whether this deployment relays. */
  readonly relays: () => boolean;
  readonly limiter: () => Limiter;
  readonly database: () => Promise<Database>;
  /** Has the relay look, and does not wait for it. */
  readonly kick: () => Promise<void>;
}

/**
 * The kicks of all producers together. While a relay of this process looks, further kicks cost it nothing, and one that
 * finds nothing sends one statement. Three a second keep every event of a steady stream below a second, whatever the
 * number of producers: the relay of one kick finds the events of all. A kick that is refused costs its events at most the
 * five seconds to the next tick, and who has stolen the secret gets no more than this.
 */
const LIMIT = { name: 'kick', limit: 30, windowMs: 10 * SECOND };

/**
 * Takes the kick of a producer that emits in another process: producer commits → POST /api/kick → 202 → the relay looks,
 * as after an emit of this process. A component elsewhere that is back after an outage names itself, and is probed at once.
 *
 * @throws Problem 503 `kick_not_configured`, 413, 415, 401, 409 `relay_off`, 429 or 400, in this order of checks: a forged
 *   kick uses up nothing of the producers' limit.
 */
export async function takeKick(intake: KickIntake): Promise<Response> {
  const { request, secrets, relays, limiter, database, kick } = intake;
  if (secrets.length === 0) throw new Problem('kick_not_configured', { retryAfterSeconds: 60 });
  const body = await readBody(request, KICK_LIMIT_BYTES);
  if (body.length > 0) requireJson(request);
  const { headers, url } = request;
  const verification = verifyWebhook('standard', { secrets, headers, body, url, now: Date.now() / SECOND });
  if (!verification.ok) throw new Problem('invalid_signature', { reason: verification.reason });
  requireRelays(relays());
  requireAllowed([LIMIT], await limiter().take([{ key: 'producers', limit: LIMIT }]));
  const { subscriber } =
    body.length > 0 ? validated({ type: 'application/json', bytes: body }, kickBody) : {};
  if (subscriber !== undefined) await probeReturned(await database(), subscriber);
  await kick();
  return Response.json({ accepted: true }, { status: 202 });
}
