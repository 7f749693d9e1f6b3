import { alertSettings } from './alert-settings.ts';
import {
  environmentOf,
  InvalidConfiguration,
  isDeployed,
  readable,
  setIn,
  withoutUser,
} from './environment.ts';
import type { Environment } from './environment.ts';
import { mailSettings } from './mail-settings.ts';
import { operatorSettings } from './operator-settings.ts';
import { readOrigin } from './origin-pattern.ts';
import { remoteProducers } from './remote-producers.ts';
import { limitSettings, remoteSubscribers, subscriberVariables } from './remote-subscribers.ts';
import { paymentSenders, reconciliationSettings, webhookSettings } from './webhook-settings.ts';

export type { AlertSettings } from './alert-settings.ts';
export { InvalidConfiguration, readable } from './environment.ts';
export type { MailSettings } from './mail-settings.ts';
export type { OperatorSettings } from './operator-settings.ts';
export type { RemoteProducer } from './remote-producers.ts';
export type { RemoteSubscriber } from './remote-subscribers.ts';
export {
  endpointsWithSharedSecrets,
  isAskable,
  providerOf,
  providers,
  reconciledAs,
  schemes,
  webhookEndpoints,
  webhookParts,
  webhookVariable,
} from './webhook-settings.ts';
export type { PaymentSender, Provider, ReconciliationSettings, Scheme } from './webhook-settings.ts';

/** The parsed environment. */
export type Config = ReturnType<typeof readConfig>;

/**
 * Reads the environment. No other code does.
 *
 * Each part is checked when it is read, so that a wrong variable stops only what needs it: reading that part throws
 * `InvalidConfiguration`, for the first wrong variable of the part.
 *
 * @param overrides replace variables of the same name.
 */
export function readConfig(overrides: Readonly<Record<string, string>> = {}) {
  const source = { ...process.env, ...overrides };
  const env = environmentOf(source);
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
    /** Of the producers elsewhere that kick the relay. Several during a rotation; empty if they cannot. */
    get kickSecrets() {
      return env.KICK_SECRET ?? [];
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
      return mailSettings(env);
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
    /** How visitors above a rate prove that they are people; undefined: nobody is asked. */
    get turnstile(): TurnstileSettings | undefined {
      const secret = env.TURNSTILE_SECRET_KEY;
      return secret === undefined
        ? undefined
        : { secret, baseUrl: withoutUser('TURNSTILE_BASE_URL', env.TURNSTILE_BASE_URL) };
    },
    alerts: alertSettings(env, {
      environment: environmentName(env),
      isDeployed: isDeployed(source),
      publicUrl: () => publicUrl(env),
    }),
    get redis() {
      return redis(env);
    },
    get operators() {
      return operatorSettings(env);
    },
    webhooks: webhookSettings(source),
    reconciliations: reconciliationSettings(source),
    paymentSenders: paymentSenders(source, env.VERCEL_ENV === 'production'),
    remoteSubscribers: remoteSubscribers(source),
    limits: limitSettings(source),
    remoteProducers: remoteProducers(source),
    setVariables: setIn(source),
  };
}

/**
 * Finds every wrong variable, to show to a person who starts a server and to log in a function.
 *
 * @returns one error per wrong variable.
 */
export function wrongVariables(): InvalidConfiguration[] {
  const config = readConfig();
  const parts = [
    environmentOf(process.env),
    config,
    config.rates,
    config.alerts,
    config.webhooks,
    config.reconciliations,
    ...config.remoteSubscribers,
    subscriberVariables(process.env),
    ...config.remoteProducers,
  ];
  const found = new Map<string, InvalidConfiguration>();
  for (const part of parts) {
    // Reading a property checks it.
    for (const name of Object.keys(part)) {
      readable(
        () => Reflect.get(part, name),
        (error) => found.set(error.variable, error),
      );
    }
  }
  return [...found.values()];
}

/** The embedded database's folder, relative to the working directory. */
const DATA_DIR = '.data';

function database(env: Environment) {
  const url = env.DATABASE_URL;
  if (url?.startsWith('postgres')) {
    const isNeon =
      env.DATABASE_DRIVER === 'neon' ||
      (!env.DATABASE_DRIVER && new URL(url).hostname.endsWith('.neon.tech'));
    return { kind: isNeon ? 'neon' : 'postgres', url } as const;
  }
  // A function's disk is lost when the function ends, and an embedded database with it.
  if (env.VERCEL === '1') {
    if (url) {
      throw new InvalidConfiguration(
        'DATABASE_URL',
        'must be the URL of a Postgres server in a deployment, for example postgres://postbud@db.example.no/postbud',
      );
    }
    return { kind: 'none' } as const;
  }
  if (url) return { kind: 'embedded', dataDir: url } as const;
  return { kind: 'embedded', dataDir: env.DATA_DIR ?? DATA_DIR } as const;
}

/** Names the deployment in the console, so that nobody replays in production by mistake. */
function environmentName(env: Environment): 'Production' | 'Preview' | 'Local' {
  if (env.VERCEL_ENV === 'preview') return 'Preview';
  if (env.VERCEL_ENV === 'development') return 'Local';
  return env.VERCEL_ENV === 'production' || env.VERCEL === '1' ? 'Production' : 'Local';
}

/** The origins whose pages may call the public functions. */
function corsOrigins(env: Environment): {
  readonly origins: readonly string[];
  readonly anyLocalhost: boolean;
} {
  const entries = (env.CORS_ORIGINS ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter(Boolean);
  const origins = entries.map((entry, index) => {
    const read = readOrigin(entry, index + 1);
    if ('wrong' in read) throw new InvalidConfiguration('CORS_ORIGINS', read.wrong);
    return read.origin;
  });
  return { origins, anyLocalhost: env.CORS_ORIGINS === undefined && env.VERCEL !== '1' };
}

/** Reads the address of the deployment; undefined where nothing says it. */
function publicUrl(env: Environment): string | undefined {
  const url = withoutUser('PUBLIC_URL', env.PUBLIC_URL)?.replace(/\/+$/, '');
  if (url !== undefined) return url;
  const host = env.VERCEL_PROJECT_PRODUCTION_URL;
  // A preview knows this host too, but its incidents are not there.
  return host !== undefined && env.VERCEL_ENV === 'production' ? `https://${host}` : undefined;
}

/** How tokens of Cloudflare Turnstile are verified. */
export interface TurnstileSettings {
  readonly secret: string;
  readonly baseUrl: string | undefined;
}

function redis(env: Environment): { readonly url: string; readonly token: string } | undefined {
  const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token } = env;
  if (Boolean(url) !== Boolean(token)) {
    const [unset, set] = url
      ? (['UPSTASH_REDIS_REST_TOKEN', 'UPSTASH_REDIS_REST_URL'] as const)
      : (['UPSTASH_REDIS_REST_URL', 'UPSTASH_REDIS_REST_TOKEN'] as const);
    throw new InvalidConfiguration(unset, `must be set when ${set} is`);
  }
  return url && token ? { url, token } : undefined;
}

/**
 * The settings of traces: which are kept, and under which name. The exporter itself reads the endpoint and the headers.
 */
export interface TracingSettings {
  readonly serviceName: string;
  readonly sampler: NonNullable<Environment['OTEL_TRACES_SAMPLER']>;
  /** The share of traces that a sampler by ratio keeps, 0 to 1. */
  readonly ratio: number;
}

/**
 * Reads what is logged and traced. Never throws: if one of these variables is wrong, the default level is logged,
 * nothing is traced, and the log names the variable.
 */
export function readTelemetry() {
  const env = environmentOf(process.env);
  return {
    logLevel: readable(() => env.LOG_LEVEL) ?? 'info',
    tracing: readable(() => tracing(env)),
  };
}

function tracing(env: Environment): TracingSettings | undefined {
  const endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  // Without an endpoint there is nowhere to send traces.
  if (!(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? endpoint)) return undefined;
  return {
    serviceName: env.OTEL_SERVICE_NAME ?? 'postbud',
    sampler: env.OTEL_TRACES_SAMPLER ?? 'parentbased_always_on',
    ratio: env.OTEL_TRACES_SAMPLER_ARG ?? 1,
  };
}
