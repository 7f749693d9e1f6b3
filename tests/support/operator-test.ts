import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { Refusal } from '../../lib/components/registry.ts';
import { countBadges } from '../../lib/console/dead-letters/count.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { test as busTest } from './bus-test.ts';
import { drainLive, emitPayments } from './bus.ts';
import type { Bus } from './bus.ts';
import { deliveryIdsOf } from './records.ts';
import { ledger } from './ledger.ts';
import { operatorFunction } from './operator-function.ts';
import { operatorSettings, operatorToken } from './operator-token.ts';

/**
 * Vitest's `test` with the functions of operators over the file's emptied database: `operators.ask(path)` asks them all
 * in one, `operators.died(2)` and `operators.held(2)` make dead letters and a waiting lane of the ledger.
 */
export const test = busTest.extend('operators', async ({ bus, output }) => {
  // What a test asks is logged, and nobody reads it.
  output.text();
  return new Operators(bus);
});

export const HOME = '/platform/event-bus';

/** A browser's `Accept`. */
export const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

export interface Sent {
  readonly accept?: string;
  /** All scopes when left out. */
  readonly scope?: string;
  readonly json?: unknown;
  readonly form?: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly cookie?: string;
}

/** An operator's request with a valid token. @param path from the root. */
export async function operatorRequest(
  path: string,
  { accept, scope, json, form, method, cookie }: Sent = {},
) {
  const body = form ? new URLSearchParams(form) : json === undefined ? null : JSON.stringify(json);
  return new Request(`https://postbud.example${path}`, {
    method: method ?? (body === null ? 'GET' : 'POST'),
    headers: {
      authorization: `Bearer ${await operatorToken(scope === undefined ? {} : { scope })}`,
      ...(accept !== undefined && { accept }),
      ...(cookie !== undefined && { cookie }),
      ...(json !== undefined && { 'content-type': 'application/json' }),
      ...(form && { 'sec-fetch-site': 'same-origin' }),
    },
    body,
  });
}

export class Operators {
  /** How often a commit kicked the relay since the last dead letters or held lanes were made. */
  kicks = 0;
  attached: readonly AttachedSubscriber[] = [ledger()];
  refusals: readonly Refusal[] = [];
  relays = true;
  readonly fetch: Endpoint['fetch'];
  readonly #bus: Bus;

  constructor(bus: Bus) {
    this.#bus = bus;
    const { fetch } = operatorFunction({
      settings: operatorSettings,
      db: () => bus.db,
      badges: async () => await countBadges(bus.db),
      subscribers: () => this.attached,
      refusals: () => this.refusals,
      relays: () => this.relays,
    });
    this.fetch = fetch;
    onDue(bus.db, () => (this.kicks += 1));
  }

  /** @param path below the console's home. */
  async ask(path: string, sent: Sent = {}) {
    const response = await this.fetch(await operatorRequest(HOME + path, sent));
    const text = await response.text();
    const type = response.headers.get('content-type') ?? '';
    return {
      status: response.status,
      headers: response.headers,
      type,
      text,
      json: (type.includes('json') && text ? JSON.parse(text) : {}) as Record<string, unknown>,
    };
  }

  /** Makes so many dead letters of the ledger. @returns their ids, oldest first. */
  async died(count: number, message = 'refused'): Promise<string[]> {
    await emitPayments(this.#bus.db, 1, count);
    const refuse = () => {
      throw new PermanentError(message);
    };
    await drainLive(this.#bus.db, [ledger(refuse)]);
    this.kicks = 0;
    return await this.idsIn('dead_lettered');
  }

  /** Makes a lane of the ledger wait. @returns the deliveries in it, the one that holds it first. */
  async held(count: number): Promise<string[]> {
    await emitPayments(this.#bus.db, 1, count);
    const fail = () => {
      throw new TypeError('the ledger is down');
    };
    await drainLive(this.#bus.db, [ledger(fail)]);
    this.kicks = 0;
    return [...(await this.idsIn('failing')), ...(await this.idsIn('pending'))];
  }

  async idsIn(state: string): Promise<string[]> {
    return await deliveryIdsOf(this.#bus.db, 'ledger', state);
  }
}
