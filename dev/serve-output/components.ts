import { randomBytes } from 'node:crypto';

import { Webhook } from 'standardwebhooks';

import { subscriberNames } from '../../lib/catalog/catalog.ts';
import { readConfig } from '../../lib/config.ts';
import { subscribersOf } from '../../lib/subscribers/registry.ts';

/** The components that no function has in it, all at one address. */
export interface Components {
  /** What tells the functions where they are. */
  readonly variables: Readonly<Record<string, string>>;
  /** Takes an event that the bus has signed. */
  readonly take: (request: Request) => Promise<Response>;
}

/** Stands in for the components that run elsewhere and have no address yet: they take whatever they are handed. */
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
