import { createHmac } from 'node:crypto';

import { relay } from '../../lib/bus/relay/relay.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/edge/webhooks/route.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { logTo } from '../../lib/platform/log.ts';
import { measured, paced, until } from '../peers/serve.mjs';
import { webhookBody } from './workload.ts';

// Sends webhooks as a provider does, to the deployed function.

const WEBHOOK_SECRET = Buffer.alloc(32, 'bench').toString('base64');

function signedWebhook(number: number): Request {
  const id = `msg_${number}`;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const body = webhookBody(number);
  const signature = createHmac('sha256', Buffer.from(WEBHOOK_SECRET, 'base64'))
    .update(`${id}.${timestamp}.${body}`)
    .digest('base64');
  return new Request('http://localhost/api/webhooks/cardpayments', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
    },
    body,
  });
}

type Intake = (request: Request) => Promise<Response>;

/** The function itself, or the same without its kick, which would run the relay in this process. */
async function intake(url: string, kicks: boolean): Promise<Intake> {
  Object.assign(process.env, { DATABASE_URL: url, WEBHOOK_CARDPAYMENTS_SECRET: `whsec_${WEBHOOK_SECRET}` });
  logTo(() => undefined);
  const { default: webhooks } = await import('../../api/webhooks/[provider].ts');
  if (kicks) return async (request) => await webhooks.fetch(request);
  const { config } = await import('../../lib/components/postbud.ts');
  const { db } = await connect(url);
  const database = async () => db;
  const rejections = new Rejections(database);
  const silent = endpoint(webhookRoute, {
    handle: async (request, { requestId }) =>
      Response.json(
        await receiveWebhook({
          request,
          requestId,
          settings: config().webhooks,
          database,
          rejections,
        }),
      ),
  });
  return async (request) => await silent.fetch(request);
}

async function accepted(fetch: Intake, request: Request): Promise<void> {
  const response = await fetch(request);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  await response.json();
}

let webhooks = 0;

export interface PacedOrder {
  readonly count: number;
  readonly perSecond: number;
}

export async function pacedIntake(url: string, order: PacedOrder) {
  const fetch = await intake(url, true);
  const times: number[] = [];
  await paced(order, async () => {
    const startedAt = performance.now();
    await accepted(fetch, signedWebhook((webhooks += 1)));
    times.push(performance.now() - startedAt);
  });
  await quiet();
  return { times };
}

/** Delivers the rest, as the cron does: a kicked relay stops after ten seconds. */
async function quiet(): Promise<void> {
  const { database, subscribers } = await import('../../lib/components/database.ts');
  const db = await database();
  await until(async () => {
    await relay({ db, subscribers: subscribers(), until: Date.now() + 60_000 });
    const [found] = await run<{ waiting: boolean }>(driverOf(db), {
      text: `select exists (select from awaiting where topic = $1)
        or exists (select from subscription_counts where topic = $1 and pending + failing > 0) as waiting`,
      values: ['webhook.cardpayments.received'],
    });
    return !found!.waiting;
  });
}

export interface FloodOrder {
  readonly seconds: number;
  readonly atOnce: number;
  readonly kicks: boolean;
}

export async function flood(url: string, { seconds, atOnce, kicks }: FloodOrder) {
  const fetch = await intake(url, kicks);
  const found = await measured(async () => {
    const before = webhooks;
    const endsAt = performance.now() + seconds * 1000;
    const one = async () => {
      while (performance.now() < endsAt) await accepted(fetch, signedWebhook((webhooks += 1)));
    };
    await Promise.all(Array.from({ length: atOnce }, one));
    return { count: webhooks - before };
  });
  if (kicks) await quiet();
  return found;
}
