import * as z from 'zod';

import { oneOf, optional, parsed, readable, readOnDemand } from './environment.ts';
import type { Source } from './environment.ts';

/**
 * The outside senders of webhooks. A name here is its endpoint, `/webhooks/<provider>`, its variables,
 * `WEBHOOK_<PROVIDER>_SECRET` and `_SCHEME`, and its topic, `webhook.<provider>.received`, which the catalog holds.
 */
export const providers = ['cardpayments', 'walletpayments', 'identityprovider'] as const;
export type Provider = (typeof providers)[number];

/** The ways to sign webhooks; `lib/webhooks/schemes` implements each. */
export const schemes = ['standard', 'stripe', 'vipps', 'criipto', 'github-style'] as const;
export type Scheme = (typeof schemes)[number];

/** How a provider's webhooks are verified. */
export interface WebhookSettings {
  readonly scheme: Scheme;
  /** Several during a rotation; empty if the endpoint is not configured. */
  readonly secrets: readonly string[];
}

const secrets = optional(z.string().transform((value) => value.split(/\s+/).filter(Boolean)));
const scheme = oneOf(schemes);

/** Reads how each provider's webhooks are verified. Reading a wrong one throws. */
export function webhookSettings(source: Source): Readonly<Record<Provider, WebhookSettings>> {
  return readOnDemand(providers, (provider) => {
    const prefix = `WEBHOOK_${provider.toUpperCase()}`;
    return {
      secrets: parsed(`${prefix}_SECRET`, secrets, source) ?? [],
      scheme: parsed(`${prefix}_SCHEME`, scheme, source) ?? 'standard',
    };
  });
}

/**
 * Finds the providers that share both a secret and a scheme with another one. Both endpoints work, but a request signed
 * for one also passes at the other, which is seldom intended.
 */
export function providersWithSharedSecrets(
  settings: Readonly<Record<Provider, WebhookSettings>>,
): Provider[] {
  const usable = providers.flatMap((provider) => {
    const own = readable(() => settings[provider]);
    return own ? [{ provider, ...own }] : [];
  });
  return usable
    .filter((own) =>
      usable.some(
        (other) =>
          other !== own &&
          other.scheme === own.scheme &&
          other.secrets.some((secret) => own.secrets.includes(secret)),
      ),
    )
    .map(({ provider }) => provider);
}
