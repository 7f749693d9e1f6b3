import * as z from 'zod';

import { SIGNING_SECRET } from './schemes/signing.ts';
import { DAY, MINUTE, msOf } from './time.ts';

/** A variable of the environment has a wrong value. The message never repeats the value: it may be a secret. */
export class InvalidConfiguration extends Error {
  readonly code = 'invalid_configuration';
  readonly variable: string;

  /** @param must completes a sentence about the variable, for example `must be on or off`. */
  constructor(variable: string, must: string) {
    super(`${variable} ${must}`);
    this.name = 'InvalidConfiguration';
    this.variable = variable;
  }
}

/** An environment: texts by the names of variables. */
export type Source = Readonly<Record<string, string | undefined>>;

/** The variables with a fixed name. Each is parsed when it is read, not before. */
export type Environment = z.output<typeof variables>;

/** Samplers of OpenTelemetry that fit functions. */
const samplers = ['parentbased_always_on', 'parentbased_traceidratio', 'traceidratio'] as const;

/** A longer-lived token would be a password that nobody can change. */
const LONGEST_TOKEN_AGE_MS = 30 * DAY;

/** A service that Postbud calls. A deployment calls it over HTTPS only; see `parsed`. */
export const httpUrl = optional(
  z.url({
    protocol: /^https?$/,
    error: 'must be a URL that starts with https:// or http://, for example https://service.example.no',
  }),
);

/** Whether a URL contains a user or a password, which may stand there alone. */
export function namesUser(url: string): boolean {
  const { username, password } = new URL(url);
  return username !== '' || password !== '';
}

/** @throws InvalidConfiguration for a URL with a user or a password, which `fetch` refuses. */
export function withoutUser(variable: string, url: string | undefined): string | undefined {
  if (url === undefined || !namesUser(url)) return url;
  throw new InvalidConfiguration(variable, 'must not contain a user or a password');
}

export const onOrOff = oneOf(['on', 'off']);

const shareOfTraces = 'must be the share of traces to keep, from 0 to 1, for example 0.1';

/** The secrets by which producers sign. */
export const producersSecrets = optional(
  z
    .string()
    .transform((value) => value.split(/\s+/).filter(Boolean))
    .refine(
      (secrets) => secrets.every((secret) => SIGNING_SECRET.test(secret)),
      'must be whsec_ and the base64 of 24 to 64 random bytes, the same as at the producers; several with spaces between them during a rotation',
    ),
);

/** The variables of providers, and of producers and components elsewhere, carry a name in theirs: `lib/platform/config.ts` reads those. */
export const variables = z.object({
  DATABASE_URL: optional(
    z
      .string()
      .refine(
        isDatabaseUrl,
        'must be a URL that starts with postgres://, with special characters in its password percent-encoded, for example postgres://postbud:p%23ss@db.example.no/postbud',
      ),
  ),
  DATABASE_DRIVER: oneOf(['neon', 'pg']),
  DATA_DIR: optional(z.string()),
  VERCEL: optional(z.string()),
  VERCEL_ENV: optional(z.string()),
  PORT: wholeNumber(0, 65_535),
  DEMO: onOrOff,
  RELAY: onOrOff,
  CRON_SECRET: optional(
    z
      .string()
      .regex(
        /^\S{16,}$/,
        'must be at least 16 characters without spaces, for example the output of openssl rand -hex 16',
      ),
  ),
  KICK_SECRET: producersSecrets,
  CORS_ORIGINS: optional(z.string()),
  ANTHROPIC_API_KEY: optional(z.string().trim()),
  ANTHROPIC_BASE_URL: httpUrl,
  CHAT_MODEL: optional(z.string().trim()),
  CHAT_MAX_TOKENS: wholeNumber(1, 8192),
  CHAT_RATE_PER_MINUTE: wholeNumber(1, 100_000),
  CHAT_RATE_PER_DAY: wholeNumber(1, 10_000_000),
  CHAT_DAILY_BUDGET: wholeNumber(1, 10_000_000),
  INQUIRY_RATE_PER_10_MINUTES: wholeNumber(1, 100_000),
  INQUIRY_DAILY_BUDGET: wholeNumber(1, 10_000_000),
  SENDGRID_API_KEY: optional(z.string().trim()),
  SENDGRID_BASE_URL: httpUrl,
  SENDGRID_RESIDENCY: oneOf(['eu', 'global']),
  ADMIN_EMAIL: mailAddress(),
  CC_EMAIL: mailAddress(),
  FROM_EMAIL: mailAddress(),
  ALERT_EMAIL: mailAddress(),
  ALERT_WEBHOOK_URL: httpUrl,
  ALERT_WEBHOOK_SECRET: optional(
    z
      .string()
      .regex(
        SIGNING_SECRET,
        'must be whsec_ and the base64 of 24 to 64 random bytes, the same as at the receiver',
      ),
  ),
  ALERT_SLACK_URL: httpUrl,
  ALERT_TEAMS_URL: httpUrl,
  PAGERDUTY_ROUTING_KEY: optional(
    z
      .string()
      .trim()
      .regex(
        /^[A-Za-z0-9]{32}$/,
        'must be the integration key of an integration “Events API v2” of a PagerDuty service: 32 letters and digits',
      ),
  ),
  PAGERDUTY_BASE_URL: httpUrl,
  HEARTBEAT_URL: httpUrl,
  PUBLIC_URL: httpUrl,
  VERCEL_PROJECT_PRODUCTION_URL: optional(z.string().trim()),
  VERCEL_URL: optional(z.string().trim()),
  UPSTASH_REDIS_REST_URL: httpUrl,
  UPSTASH_REDIS_REST_TOKEN: optional(z.string().trim()),
  TURNSTILE_SECRET_KEY: optional(z.string().trim()),
  TURNSTILE_BASE_URL: httpUrl,
  STAND_INS: onOrOff,
  LOG_LEVEL: oneOf(['info', 'warn', 'error']),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: httpUrl,
  OTEL_SERVICE_NAME: optional(z.string().trim()),
  OTEL_TRACES_SAMPLER: oneOf(samplers),
  OTEL_TRACES_SAMPLER_ARG: optional(
    z.coerce.number(shareOfTraces).min(0, shareOfTraces).max(1, shareOfTraces),
  ),
  OPERATOR_JWT_SECRET: optional(
    z
      .string()
      .refine(
        (value) => Buffer.byteLength(value) >= 32,
        'must be at least 32 bytes, for example the output of openssl rand -base64 48',
      ),
  ),
  OPERATOR_JWKS_URL: httpUrl,
  OPERATOR_JWT_ISSUER: optional(z.string()),
  OPERATOR_JWT_AUDIENCE: optional(z.string()),
  // Not as other URLs: a directory on this machine may do without HTTPS, anywhere.
  OPERATOR_OIDC_ISSUER: optional(
    z.url({
      protocol: /^https?$/,
      error: 'must be the issuer of the directory, for example https://login.example.no/realms/kommune',
    }),
  ),
  OPERATOR_OIDC_CLIENT_ID: optional(z.string().trim()),
  OPERATOR_OIDC_CLIENT_SECRET: optional(z.string().trim()),
  OPERATOR_OIDC_ROLES: optional(z.string()),
  OPERATOR_TOKEN_MAX_AGE: optional(
    z
      .string()
      .trim()
      .refine(
        (text) => msOf(text) >= MINUTE && msOf(text) <= LONGEST_TOKEN_AGE_MS,
        'must be a whole number and a unit (s, m, h or d), from 1m to 30d, for example 24h',
      ),
  ),
});

/** Reads the variables that have a fixed name. */
export function environmentOf(source: Source): Environment {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- one value per variable of the schema
  return readOnDemand(Object.keys(variables.shape), (variable) =>
    parsed(variable, Reflect.get(variables.shape, variable), source),
  ) as Environment;
}

/** Makes a record that reads a value each time it is asked for it, so that a wrong one stops nothing else. */
export function readOnDemand<Name extends string, Value>(
  names: readonly Name[],
  read: (name: Name) => Value,
): Readonly<Record<Name, Value>> {
  const getters = names.map((name) => [name, { get: () => read(name), enumerable: true }] as const);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- one getter per name
  return Object.defineProperties({}, Object.fromEntries(getters)) as Record<Name, Value>;
}

/** Parses one variable. @throws InvalidConfiguration */
export function parsed<Schema extends z.ZodType>(
  variable: string,
  schema: Schema,
  source: Source,
): z.output<Schema> {
  const { data, error } = z.safeParse(schema, source[variable]);
  if (error) throw new InvalidConfiguration(variable, error.issues[0]?.message ?? 'must have another value');
  // Over HTTP, keys, tokens and events would cross other people's networks in the clear.
  if (isDeployed(source) && Object.is(schema, httpUrl) && /^http:/i.test(String(data)))
    throw new InvalidConfiguration(variable, 'must be a URL that starts with https:// in a deployment');
  return data;
}

/** The names of all that is set. */
export function setIn(source: Source): string[] {
  return Object.keys(source).filter((variable) => source[variable]?.trim());
}

/** Whether this is a function on Vercel, not a developer's server. */
export function isDeployed({ VERCEL }: Source): boolean {
  return VERCEL === '1';
}

/** Reads a part of the configuration. @returns undefined where one of its variables is wrong. */
export function readable<Part>(
  read: () => Part,
  onWrong?: (error: InvalidConfiguration) => void,
): Part | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof InvalidConfiguration)) throw error;
    onWrong?.(error);
    return undefined;
  }
}

/** An empty or blank variable counts as unset, because many hosts can only empty a variable, not remove it. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  return z.preprocess(
    (value) => (typeof value === 'string' && value.trim() === '' ? undefined : value),
    schema.optional(),
  );
}

export function oneOf<const Names extends readonly [string, ...string[]]>(names: Names) {
  return optional(z.enum(names, `must be one of ${names.join(', ')}`));
}

export function wholeNumber(least: number, most: number) {
  const must = `must be a whole number from ${least} to ${most}`;
  return optional(z.coerce.number(must).int(must).min(least, must).max(most, must));
}

function mailAddress() {
  const address = z.email({
    pattern: z.regexes.unicodeEmail,
    error: 'must be one e-mail address, for example post@example.no',
  });
  return optional(z.string().trim().pipe(address));
}

/** The URL of an embedded database is a scheme and a folder, which URL parsers refuse. */
function isDatabaseUrl(value: string): boolean {
  return /^(memory|file):\/\//.test(value) || (/^postgres(ql)?:\/\//.test(value) && URL.canParse(value));
}
