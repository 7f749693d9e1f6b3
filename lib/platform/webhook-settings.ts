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
  setIn,
} from './environment.ts';
import type { Source } from './environment.ts';

/**
 * The outside senders of webhooks. A name here is its endpoint, `/webhooks/<provider>`, its variables,
 * `WEBHOOK_<PROVIDER>_SECRET` and so on, and its topic, `webhook.<provider>.received`, which the catalog holds.
 *
 * A further account of a provider is an endpoint of its own, such as `cardpayments_2`, with its own variables. Its
 * webhooks are of the same topic.
 */
export const providers = ['cardpayments', 'walletpayments', 'identityprovider'] as const;
export type Provider = (typeof providers)[number];

/** How the variables of an endpoint end: `WEBHOOK_CARDPAYMENTS_SECRET`, `WEBHOOK_CARDPAYMENTS_2_SECRET`. */
export const webhookParts = [
  'SECRET',
  'SCHEME',
  'ACCOUNT',
  'SIGNATURE_HEADER',
  'RECONCILE_KEY',
  'RECONCILE_URL',
  'URL',
] as const;
type WebhookPart = (typeof webhookParts)[number];

/** Names a variable of an endpoint. */
export function webhookVariable(endpoint: string, part: WebhookPart): string {
  return `WEBHOOK_${endpoint.toUpperCase()}_${part}`;
}

/** Finds the provider of an endpoint; undefined for a name that is none. Further accounts are numbered from 2 to 99. */
export function providerOf(endpoint: string): Provider | undefined {
  const name = endpoint.replace(/_(?:[2-9]|[1-9]\d)$/, '');
  return providers.find((provider) => provider === name);
}

/** Lists the endpoints: one of each provider, and one of each further account that a variable is set for. */
export function webhookEndpoints(setVariables: readonly string[]): readonly string[] {
  const named = setVariables.flatMap((variable) => {
    const part = webhookParts.find((end) => variable.endsWith(`_${end}`));
    const name = variable.slice('WEBHOOK_'.length, -(part?.length ?? 0) - 1).toLowerCase();
    return part && variable === webhookVariable(name, part) && providerOf(name) ? [name] : [];
  });
  return providers.flatMap((provider) => {
    const further = named.filter((name) => name !== provider && providerOf(name) === provider);
    return [provider, ...[...new Set(further)].toSorted()];
  });
}

/** The ways to sign webhooks; `lib/platform/schemes` implements each. */
export const schemes = ['standard', 'stripe', 'vipps', 'criipto', 'github-style'] as const;
export type Scheme = (typeof schemes)[number];

/** How the webhooks of an endpoint are verified. */
export interface WebhookSettings {
  readonly scheme: Scheme;
  /** Several during a rotation; empty if the endpoint is not configured. */
  readonly secrets: readonly string[];
  /** The address that the provider posts to, and signs; undefined: that of the request. */
  readonly url?: string | undefined;
  /** The header of the signature; undefined: the scheme's own. */
  readonly signatureHeader?: string | undefined;
}

const secrets = optional(z.string().transform((value) => value.split(/\s+/).filter(Boolean)));
const scheme = oneOf(schemes);

/** Settings by the name of the endpoint. */
export type ByEndpoint<Settings> = Readonly<Record<string, Settings>>;

/** Reads how the webhooks of each endpoint are verified. Reading a wrong one throws. */
export function webhookSettings(source: Source): ByEndpoint<WebhookSettings> {
  return readOnDemand(webhookEndpoints(setIn(source)), (endpoint) => ({
    secrets: parsed(webhookVariable(endpoint, 'SECRET'), secrets, source) ?? [],
    scheme: schemeOf(endpoint, source),
    url: postedUrl(endpoint, source),
    signatureHeader: signatureHeaderOf(endpoint, source),
  }));
}

function postedUrl(endpoint: string, source: Source): string | undefined {
  const variable = webhookVariable(endpoint, 'URL');
  const url = parsed(variable, httpUrl, source);
  if (url === undefined) return undefined;
  const hasPath = /^https?:\/\/[^/?#]+\//i.test(url);
  if (hasPath && !namesUser(url) && !/[?#]/.test(url)) return url;
  throw new InvalidConfiguration(
    variable,
    `must be the whole address that is registered at the provider, with its path and without a user, a query or a fragment, for example https://hooks.example.no/webhooks/${endpoint}`,
  );
}

const headerName = optional(
  z
    .string()
    .trim()
    .toLowerCase()
    .regex(/^[a-z0-9][a-z0-9-]{0,99}$/, 'must be the name of a header, for example X-Signature'),
);

function signatureHeaderOf(endpoint: string, source: Source): string | undefined {
  const variable = webhookVariable(endpoint, 'SIGNATURE_HEADER');
  const name = parsed(variable, headerName, source);
  if (name === undefined || schemeOf(endpoint, source) === 'github-style') return name;
  throw new InvalidConfiguration(
    variable,
    `must not be set: only the scheme github-style has a header of any name. Set ${webhookVariable(endpoint, 'SCHEME')}=github-style, or remove it`,
  );
}

function schemeOf(endpoint: string, source: Source): Scheme {
  return parsed(webhookVariable(endpoint, 'SCHEME'), scheme, source) ?? 'standard';
}

/**
 * Finds the endpoints that share both a secret and a scheme with another one. Both work, but a request signed for one
 * also passes at the other, which is seldom intended.
 */
export function endpointsWithSharedSecrets(settings: ByEndpoint<WebhookSettings>): string[] {
  const usable = Object.keys(settings).flatMap((endpoint) => {
    const own = readable(() => settings[endpoint]);
    return own ? [{ endpoint, ...own }] : [];
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
    .map(({ endpoint }) => endpoint);
}

/** Whose payments an endpoint takes as money. */
export interface PaymentSender {
  /** Stripe's accounts (`acct_…`) or Vipps' sales units; empty for any. */
  readonly accounts: readonly string[];
  /** Whether payments are of live mode; null where nothing says. */
  readonly isLive: boolean | null;
  /** Whether there is a key with which Stripe is asked for an object that an event names. */
  readonly isAsked: boolean;
}

/**
 * Reads whose payments each endpoint takes. The key of the reconciliation says of which mode and sales unit they are; a
 * production deployment without a key takes live ones.
 */
export function paymentSenders(source: Source, isProduction: boolean): ByEndpoint<PaymentSender> {
  return readOnDemand(webhookEndpoints(setIn(source)), (endpoint) => {
    const ownKey = source[webhookVariable(endpoint, 'RECONCILE_KEY')]?.trim() ?? '';
    const isStripe = apiAskedFor(endpoint) === 'stripe';
    const salesUnit = isStripe ? undefined : /:(\d{4,10})$/.exec(ownKey)?.[1];
    const accounts = parsed(webhookVariable(endpoint, 'ACCOUNT'), secrets, source) ?? [];
    const mode = /^(?:rk|sk)_(live|test)_/.exec(ownKey)?.[1];
    const isLive = mode === undefined ? isProduction || null : mode === 'live';
    return {
      accounts: accounts.length > 0 || salesUnit === undefined ? accounts : [salesUnit],
      isLive: isStripe ? isLive : null,
      isAsked: isStripe && ownKey !== '',
    };
  });
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

/** Names the row of `reconciliations` of an endpoint. All sales units of Vipps share one: nothing says of which a payment is. */
export function reconciledAs(endpoint: string): string {
  return apiAskedFor(endpoint) === 'vipps' ? providerOf(endpoint)! : endpoint;
}

/** Whether the provider of an endpoint can be asked for webhooks that never came. */
export function isAskable(endpoint: string): boolean {
  return apiAskedFor(endpoint) !== undefined;
}

function apiAskedFor(endpoint: string): 'stripe' | 'vipps' | undefined {
  const provider = providerOf(endpoint);
  return provider && askable[provider];
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
export function reconciliationSettings(source: Source): ByEndpoint<ReconciliationSettings | undefined> {
  return readOnDemand(webhookEndpoints(setIn(source)), (endpoint) => {
    const variable = webhookVariable(endpoint, 'RECONCILE_KEY');
    const addressVariable = webhookVariable(endpoint, 'RECONCILE_URL');
    const secret = parsed(variable, key, source);
    const address = parsed(addressVariable, httpUrl, source);
    if (secret === undefined) {
      if (address === undefined) return undefined;
      throw new InvalidConfiguration(variable, `must be set when ${addressVariable} is`);
    }
    const api = apiOf(endpoint, schemeOf(endpoint, source));
    const url = addressOf(addressVariable, address ?? ADDRESSES[api]);
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
function apiOf(endpoint: string, used: Scheme): 'stripe' | 'vipps' {
  const variable = webhookVariable(endpoint, 'RECONCILE_KEY');
  const api = apiAskedFor(endpoint);
  if (api === undefined)
    throw new InvalidConfiguration(
      variable,
      'must not be set: only cardpayments with the scheme stripe and walletpayments with the scheme vipps can be asked for webhooks that never came',
    );
  if (api === used) return api;
  throw new InvalidConfiguration(
    variable,
    `must not be set with the scheme ${used}: of ${endpoint}, only webhooks of the scheme ${api} can be asked for. Set ${webhookVariable(endpoint, 'SCHEME')}=${api}, or remove the key`,
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
