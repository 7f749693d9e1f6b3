import type * as z from 'zod';

import { wrongInOrigin } from './http/origin-pattern.ts';
import { httpUrl, InvalidConfiguration, isDeployed, parsed, readable, variablesOf } from './environment.ts';
import type { Source } from './environment.ts';
import { SECOND, msOf } from './time.ts';
import { onOrOff, variables } from './variables.ts';
import type { samplers } from './variables.ts';
import type { Scheme } from './webhooks/verify.ts';

export { InvalidConfiguration, readable } from './environment.ts';

export const providers = ['cardpayments', 'walletpayments', 'identityprovider'] as const;
export type Provider = (typeof providers)[number];

/** What the environment says, once parsed. */
export type Config = ReturnType<typeof readConfig>;

/**
 * Reads the environment. The only place that does.
 *
 * Each part is read and checked when it is asked for, so that a wrong variable stops what needs it and nothing else.
 * Any of them throws `InvalidConfiguration` for its first wrong variable.
 *
 * @param overrides take the place of variables of the same name.
 */
export function readConfig(overrides: Readonly<Record<string, string>> = {}) {
  const source = { ...process.env, ...overrides };
  const env = variablesOf(variables, source);
  return {
    get database() {
      return database(env);
    },
    get dataDir() {
      return env.DATA_DIR ?? DATA_DIR;
    },
    get port() {
      return env.PORT ?? 3000;
    },
    get demo() {
      return env.DEMO !== 'off';
    },
    deployed: isDeployed(source),
    environment: environmentName(env),
    // A preview's database may be a branch of production's, with production's deliveries in it.
    get relays() {
      return env.RELAY === undefined ? env.VERCEL_ENV !== 'preview' : env.RELAY === 'on';
    },
    get cronSecret() {
      return env.CRON_SECRET;
    },
    get standIns() {
      return env.STAND_INS !== 'off';
    },
    get cors() {
      return corsOrigins(env);
    },
    get chat() {
      return {
        apiKey: env.ANTHROPIC_API_KEY,
        baseUrl: env.ANTHROPIC_BASE_URL,
        model: env.CHAT_MODEL ?? 'claude-haiku-5-5',
        maxTokens: env.CHAT_MAX_TOKENS ?? 1024,
      };
    },
    get mail() {
      return mail(env);
    },
    rates: {
      get chatPerMinute() {
        return env.CHAT_RATE_PER_MINUTE ?? 20;
      },
      get chatPerDay() {
        return env.CHAT_RATE_PER_DAY ?? 300;
      },
      get chatDailyBudget() {
        return env.CHAT_DAILY_BUDGET ?? 1500;
      },
      get inquiryPer10Minutes() {
        return env.INQUIRY_RATE_PER_10_MINUTES ?? 5;
      },
      get inquiryDailyBudget() {
        return env.INQUIRY_DAILY_BUDGET ?? 500;
      },
    },
    get redis() {
      return redis(env);
    },
    get operators() {
      return operators(env);
    },
    webhooks: webhooks(env),
    remoteSubscribers: remoteSubscribers(source),
  };
}

/**
 * Finds all that is wrong with the environment, for a person who starts a server and for the log of a function.
 *
 * @returns one error for each wrong variable.
 */
export function wrongVariables(): InvalidConfiguration[] {
  const config = readConfig();
  const parts = [
    variablesOf(variables, process.env),
    config,
    config.rates,
    config.webhooks,
    ...config.remoteSubscribers,
  ];
  const found = new Map<string, InvalidConfiguration>();
  for (const part of parts) {
    // Reads each of its properties, by name.
    for (const name of Object.keys(part)) {
      readable(
        () => Reflect.get(part, name),
        (error) => found.set(error.variable, error),
      );
    }
  }
  return [...found.values()];
}

/** Where the embedded database lives, under the folder that the server was started in. */
const DATA_DIR = '.data';

type Environment = z.output<typeof variables>;

function database(env: Environment) {
  const url = env.DATABASE_URL;
  if (url?.startsWith('postgres')) {
    const isNeon =
      env.DATABASE_DRIVER === 'neon' ||
      (!env.DATABASE_DRIVER && new URL(url).hostname.endsWith('.neon.tech'));
    return { kind: isNeon ? 'neon' : 'postgres', url } as const;
  }
  // A function's disk is gone with the function: an embedded database there would lose what it was told.
  if (env.VERCEL === '1') {
    if (url)
      throw new InvalidConfiguration('DATABASE_URL', 'write the URL of a Postgres database, postgres://…');
    return { kind: 'none' } as const;
  }
  if (url) return { kind: 'embedded', dataDir: url } as const;
  return { kind: 'embedded', dataDir: env.DATA_DIR ?? DATA_DIR } as const;
}

/** What the console calls where it runs, so that nobody replays in production what they meant to try out. */
function environmentName(env: Environment): 'Production' | 'Preview' | 'Local' {
  if (env.VERCEL_ENV === 'preview') return 'Preview';
  if (env.VERCEL_ENV === 'development') return 'Local';
  return env.VERCEL_ENV === 'production' || env.VERCEL === '1' ? 'Production' : 'Local';
}

function webhooks(env: Environment): Readonly<Record<Provider, WebhookSettings>> {
  return {
    get cardpayments() {
      return {
        secrets: env.WEBHOOK_CARDPAYMENTS_SECRET ?? [],
        scheme: env.WEBHOOK_CARDPAYMENTS_SCHEME ?? 'standard',
      };
    },
    get walletpayments() {
      return {
        secrets: env.WEBHOOK_WALLETPAYMENTS_SECRET ?? [],
        scheme: env.WEBHOOK_WALLETPAYMENTS_SCHEME ?? 'standard',
      };
    },
    get identityprovider() {
      return {
        secrets: env.WEBHOOK_IDENTITYPROVIDER_SECRET ?? [],
        scheme: env.WEBHOOK_IDENTITYPROVIDER_SCHEME ?? 'standard',
      };
    },
  };
}

/**
 * The providers whose webhooks pass at another's endpoint too, for one scheme and one secret serve both: whoever has a
 * request of the one could send it to the other. A mistake in most cases, and to be told of; each works as it should.
 */
export function providersWithSharedSecrets(settings: Config['webhooks']): Provider[] {
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

/** Which pages of other origins may call the public functions. */
function corsOrigins(env: Environment): {
  readonly origins: readonly string[];
  readonly anyLocalhost: boolean;
} {
  const origins = (env.CORS_ORIGINS ?? '')
    .split(',')
    .map((origin) => origin.trim())
    .filter(Boolean);
  const wrong = origins.map(wrongInOrigin).find((complaint) => complaint !== undefined);
  if (wrong !== undefined) throw new InvalidConfiguration('CORS_ORIGINS', wrong);
  return { origins, anyLocalhost: env.CORS_ORIGINS === undefined && env.VERCEL !== '1' };
}

/** How mail is sent. */
export interface MailSettings {
  readonly apiKey: string;
  readonly baseUrl: string | undefined;
  readonly residency: 'eu' | 'global';
  /** Verified with the mail provider. */
  readonly from: string;
  /** Who reads inquiries. */
  readonly admin: string;
  readonly cc: string | undefined;
}

/** Undefined until a key, a sender and an administrator are set. */
function mail(env: Environment): MailSettings | undefined {
  if (!env.SENDGRID_API_KEY || !env.FROM_EMAIL || !env.ADMIN_EMAIL) return undefined;
  return {
    apiKey: env.SENDGRID_API_KEY,
    baseUrl: env.SENDGRID_BASE_URL,
    residency: env.SENDGRID_RESIDENCY ?? 'global',
    from: env.FROM_EMAIL,
    admin: env.ADMIN_EMAIL,
    cc: env.CC_EMAIL,
  };
}

function redis(env: Environment): { readonly url: string; readonly token: string } | undefined {
  const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token } = env;
  if (Boolean(url) !== Boolean(token)) {
    const variable = url ? 'UPSTASH_REDIS_REST_TOKEN' : 'UPSTASH_REDIS_REST_URL';
    throw new InvalidConfiguration(variable, 'write both of the pair, or neither');
  }
  return url && token ? { url, token } : undefined;
}

/** Which traces are kept, and as whose. Where they go, and with which headers, the exporter reads for itself. */
export interface TracingSettings {
  readonly serviceName: string;
  readonly sampler: (typeof samplers)[number];
  /** Share of the traces that a sampler by ratio keeps, 0 to 1. */
  readonly ratio: number;
}

/**
 * Reads how much is logged, and how much is traced, if it is. Never throws: where one of these is wrong, the usual is
 * logged and nothing traced, and the log says which one.
 */
export function readObserved() {
  const env = variablesOf(variables, process.env);
  return {
    logLevel: readable(() => env.LOG_LEVEL) ?? 'info',
    tracing: readable(() => tracing(env)),
  };
}

function tracing(env: Environment): TracingSettings | undefined {
  const endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  // Without a place to send them to there is no use in traces.
  if (!(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? endpoint)) return undefined;
  return {
    serviceName: env.OTEL_SERVICE_NAME ?? 'postbud',
    sampler: env.OTEL_TRACES_SAMPLER ?? 'parentbased_always_on',
    ratio: env.OTEL_TRACES_SAMPLER_ARG ?? 1,
  };
}

/** How operators' tokens are verified. */
export type OperatorSettings = {
  readonly issuer: string;
  readonly audience: string;
  /** How long after it was issued a token is taken, whatever it says itself. */
  readonly maxAgeSeconds: number;
} & (
  | { readonly kind: 'secret'; readonly secret: Uint8Array }
  | { readonly kind: 'jwks'; readonly url: string }
  | { readonly kind: 'none' }
);

function operators(env: Environment): OperatorSettings {
  const expected = {
    issuer: env.OPERATOR_JWT_ISSUER ?? 'postbud',
    audience: env.OPERATOR_JWT_AUDIENCE ?? 'postbud-operators',
    maxAgeSeconds: msOf(env.OPERATOR_TOKEN_MAX_AGE ?? '24h') / SECOND,
  };
  if (env.OPERATOR_JWT_SECRET && env.OPERATOR_JWKS_URL) {
    throw new InvalidConfiguration('OPERATOR_JWKS_URL', 'write this or OPERATOR_JWT_SECRET, not both');
  }
  if (env.OPERATOR_JWKS_URL) {
    for (const variable of ['OPERATOR_JWT_ISSUER', 'OPERATOR_JWT_AUDIENCE'] as const) {
      // Without them any token of that key server would do, whomever it is for.
      if (!env[variable])
        throw new InvalidConfiguration(variable, 'write what the key server’s tokens have there');
    }
    return { ...expected, kind: 'jwks', url: env.OPERATOR_JWKS_URL };
  }
  if (!env.OPERATOR_JWT_SECRET) return { ...expected, kind: 'none' };
  return { ...expected, kind: 'secret', secret: new TextEncoder().encode(env.OPERATOR_JWT_SECRET) };
}

/** How a provider's webhooks are verified. */
export interface WebhookSettings {
  readonly scheme: Scheme;
  /** Several while they rotate; none: the endpoint is not configured. */
  readonly secrets: readonly string[];
}

/** A component that runs elsewhere and is handed its events over HTTP. To read a wrong part of it throws. */
export interface RemoteSubscriber {
  readonly name: string;
  readonly url: string;
  /** Signs what is sent, as Standard Webhooks does: base64 after `whsec_`. */
  readonly secret: string;
  /** Whether it takes its events in batches; unset it does not. */
  readonly isBatch?: boolean | undefined;
}

function remoteSubscribers(source: Source): RemoteSubscriber[] {
  return Object.entries(source).flatMap(([variable, value]) => {
    const name = /^SUBSCRIBER_([A-Z]+)_URL$/.exec(variable)?.[1];
    if (!name || !value?.trim()) return [];
    return {
      name: name.toLowerCase(),
      get url() {
        return subscriberUrl(variable, source);
      },
      get secret() {
        return subscriberSecret(`SUBSCRIBER_${name}_SECRET`, source);
      },
      get isBatch() {
        const batch = parsed(`SUBSCRIBER_${name}_BATCH`, onOrOff, source);
        return batch && batch === 'on';
      },
    };
  });
}

function subscriberUrl(variable: string, source: Source): string {
  const url = parsed(variable, httpUrl, source) ?? '';
  if (!new URL(url).username) return url;
  throw new InvalidConfiguration(variable, 'leave out the user and password: what is sent is signed');
}

function subscriberSecret(variable: string, source: Source): string {
  const secret = source[variable] ?? '';
  if (/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/.test(secret)) return secret;
  throw new InvalidConfiguration(
    variable,
    'write whsec_ and the base64 of 24 to 64 random bytes, the same as at the subscriber',
  );
}
