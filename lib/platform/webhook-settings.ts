import * as z from 'zod';

import {
  httpUrl,
  InvalidConfiguration,
  namesUser,
  oneOf,
  optional,
  parsed,
  readable,
  readOnDemand,
} from './environment.ts';
import type { Source } from './environment.ts';

/**
 * The outside senders of webhooks. A name here is its endpoint, `/webhooks/<provider>`, its variables,
 * `WEBHOOK_<PROVIDER>_SECRET` and `_SCHEME`, and its topic, `webhook.<provider>.received`, which the catalog holds.
 */
export const providers = ['cardpayments', 'walletpayments', 'identityprovider'] as const;
export type Provider = (typeof providers)[number];

/** The ways to sign webhooks; `lib/platform/schemes` implements each. */
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

/** How a provider is asked for the webhooks that never came. */
export type ReconciliationSettings = {
  /** The address of its API, without a slash at its end. */
  readonly url: string;
} & (
  | { readonly api: 'stripe'; readonly key: string }
  | {
      readonly api: 'vipps';
      readonly clientId: string;
      readonly clientSecret: string;
      readonly subscriptionKey: string;
      readonly merchantSerialNumber: string;
    }
);

/** Who can be asked, and by which scheme its webhooks must be signed, so that their ids are those in its API. */
const askable: Partial<Record<Provider, 'stripe' | 'vipps'>> = {
  cardpayments: 'stripe',
  walletpayments: 'vipps',
};

/** Whether a provider can be asked for webhooks that never came. */
export function isAskable(provider: Provider): boolean {
  return askable[provider] !== undefined;
}

const ADDRESSES = { stripe: 'https://api.stripe.com', vipps: 'https://api.vipps.no' };

const key = optional(z.string().trim());

const stripeKey = z
  .string()
  .regex(/^(?:rk|sk)_\w{8,}$/, 'must be an API key of Stripe: rk_… (restricted to reading events) or sk_…');

const vippsKey = z
  .string()
  .regex(
    /^[\w-]+:[^\s:]+:\w[\w-]*:\d{4,10}$/,
    'must be client_id:client_secret:subscription_key:merchant_serial_number, the four keys of the sales unit with a colon between them',
  );

/** Reads who is asked for the webhooks that never came; undefined where nobody is. Reading a wrong one throws. */
export function reconciliationSettings(
  source: Source,
): Readonly<Record<Provider, ReconciliationSettings | undefined>> {
  return readOnDemand(providers, (provider) => {
    const prefix = `WEBHOOK_${provider.toUpperCase()}`;
    const variable = `${prefix}_RECONCILE_KEY`;
    const secret = parsed(variable, key, source);
    const address = parsed(`${prefix}_RECONCILE_URL`, httpUrl, source);
    if (secret === undefined) {
      if (address === undefined) return undefined;
      throw new InvalidConfiguration(variable, `must be set when ${prefix}_RECONCILE_URL is`);
    }
    const api = apiOf(provider, parsed(`${prefix}_SCHEME`, scheme, source) ?? 'standard');
    const url = addressOf(`${prefix}_RECONCILE_URL`, address ?? ADDRESSES[api]);
    if (api === 'stripe') return { api, url, key: parsed(variable, stripeKey, source) };
    const [clientId, clientSecret, subscriptionKey, merchantSerialNumber] = parsed(
      variable,
      vippsKey,
      source,
    ).split(':');
    return {
      api,
      url,
      clientId: clientId!,
      clientSecret: clientSecret!,
      subscriptionKey: subscriptionKey!,
      merchantSerialNumber: merchantSerialNumber!,
    };
  });
}

/** @throws InvalidConfiguration for a provider, or a scheme, that cannot be asked. */
function apiOf(provider: Provider, used: Scheme): 'stripe' | 'vipps' {
  const prefix = `WEBHOOK_${provider.toUpperCase()}`;
  const api = askable[provider];
  if (api === undefined)
    throw new InvalidConfiguration(
      `${prefix}_RECONCILE_KEY`,
      'must not be set: only cardpayments with the scheme stripe and walletpayments with the scheme vipps can be asked for webhooks that never came',
    );
  if (api === used) return api;
  throw new InvalidConfiguration(
    `${prefix}_RECONCILE_KEY`,
    `must not be set with the scheme ${used}: of ${provider}, only webhooks of the scheme ${api} can be asked for. Set ${prefix}_SCHEME=${api}, or remove the key`,
  );
}

function addressOf(variable: string, url: string): string {
  const { search, hash } = new URL(url);
  if (!namesUser(url) && search === '' && hash === '') return url.replace(/\/+$/, '');
  throw new InvalidConfiguration(
    variable,
    'must be an address without a user, a query or a fragment, for example https://apitest.vipps.no',
  );
}
