import { randomBytes } from 'node:crypto';

import { Webhook } from 'standardwebhooks';

import { subscriberNames } from '../../lib/bus/catalog/catalog.ts';
import { subscribersOf } from '../../lib/components/registry.ts';
import { readConfig } from '../../lib/platform/config.ts';

/** The components outside the functions, all at one address. */
export interface Components {
  /** Variables with their addresses, for the functions. */
  readonly variables: Readonly<Record<string, string>>;
  /** Accepts an event that the bus has signed. */
  readonly take: (request: Request) => Promise<Response>;
}

/** Stands in for components elsewhere that have no address yet. They accept every event. */
export function startComponents(address: string): Components {
  const attached = new Set(subscribersOf(readConfig()).map(({ name }) => name));
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const verifier = new Webhook(secret);
  const variables = subscriberNames().flatMap((name) => {
    const prefix = `SUBSCRIBER_${name.toUpperCase()}`;
    return attached.has(name)
      ? []
      : [[`${prefix}_URL`, address] as const, [`${prefix}_SECRET`, secret] as const];
  });
  return {
    variables: Object.fromEntries(variables),
    async take(request) {
      try {
        verifier.verify(await request.text(), Object.fromEntries(request.headers));
        return new Response(null, { status: 204 });
      } catch {
        return new Response('not signed by the bus', { status: 401 });
      }
    },
  };
}
