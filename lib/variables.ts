import * as z from 'zod';

import { httpUrl, optional } from './environment.ts';
import { DAY, MINUTE, msOf } from './time.ts';
import { schemes } from './webhooks/verify.ts';

const secrets = z.string().transform((value) => value.split(/\s+/).filter(Boolean));
const scheme = z.enum(schemes, { error: `write one of ${schemes.join(', ')}` });

/** Those of OpenTelemetry's names that make sense here. */
export const samplers = ['parentbased_always_on', 'parentbased_traceidratio', 'traceidratio'] as const;
const shareOfTraces = 'write the share of traces to keep, 0 to 1';

const mailAddress = z
  .string()
  .trim()
  .pipe(z.email({ pattern: z.regexes.unicodeEmail, error: 'write one e-mail address' }));

const TOKEN_AGE =
  'write a whole number and a unit, s, m, h or d, for example 24h or 90m; a minute at least, 30 days at most';

/** Longer-lived tokens are passwords that nobody can change. */
const LONGEST_TOKEN_AGE_MS = 30 * DAY;

function wholeNumber(least: number, most: number) {
  const should = `write a whole number, ${least} to ${most}`;
  return z.coerce.number(should).int(should).min(least, should).max(most, should);
}

/** Embedded databases are named by URLs that have nothing but a scheme. */
function isUrl(value: string): boolean {
  return !value.startsWith('postgres') || URL.canParse(value);
}

export const onOrOff = optional(z.enum(['on', 'off'], { error: 'write on or off, or leave it unset' }));

/** Every variable that has one name; those of components have the component's. */
export const variables = z.object({
  DATABASE_URL: optional(
    z
      .string()
      .refine(
        (value) => /^(postgres(ql)?|memory|file):\/\//.test(value) && isUrl(value),
        'write a URL that begins with postgres://, with signs like # in a password percent-encoded',
      ),
  ),
  DATABASE_DRIVER: optional(z.enum(['neon', 'pg'], { error: 'write neon or pg, or leave it unset' })),
  DATA_DIR: optional(z.string()),
  VERCEL: optional(z.string()),
  VERCEL_ENV: optional(z.string()),
  PORT: optional(z.coerce.number({ error: 'write a port number, 0 to 65535' }).int().min(0).max(65_535)),
  DEMO: optional(z.enum(['on', 'off'], { error: 'write off, or leave it unset' })),
  RELAY: onOrOff,
  CRON_SECRET: optional(z.string().regex(/^\S{16,}$/, 'write at least 16 characters, without spaces')),
  CORS_ORIGINS: optional(z.string()),
  ANTHROPIC_API_KEY: optional(z.string().trim()),
  ANTHROPIC_BASE_URL: httpUrl,
  CHAT_MODEL: optional(z.string().trim()),
  CHAT_MAX_TOKENS: optional(wholeNumber(1, 8192)),
  CHAT_RATE_PER_MINUTE: optional(wholeNumber(1, 100_000)),
  CHAT_RATE_PER_DAY: optional(wholeNumber(1, 10_000_000)),
  CHAT_DAILY_BUDGET: optional(wholeNumber(1, 10_000_000)),
  INQUIRY_RATE_PER_10_MINUTES: optional(wholeNumber(1, 100_000)),
  INQUIRY_DAILY_BUDGET: optional(wholeNumber(1, 10_000_000)),
  SENDGRID_API_KEY: optional(z.string().trim()),
  SENDGRID_BASE_URL: httpUrl,
  SENDGRID_RESIDENCY: optional(z.enum(['eu', 'global'], 'write eu or global, or leave it unset')),
  ADMIN_EMAIL: optional(mailAddress),
  CC_EMAIL: optional(mailAddress),
  FROM_EMAIL: optional(mailAddress),
  UPSTASH_REDIS_REST_URL: httpUrl,
  UPSTASH_REDIS_REST_TOKEN: optional(z.string().trim()),
  STAND_INS: optional(z.enum(['on', 'off'], 'write off, or leave it unset')),
  LOG_LEVEL: optional(z.enum(['info', 'warn', 'error'], 'write info, warn or error')),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: httpUrl,
  OTEL_SERVICE_NAME: optional(z.string().trim()),
  OTEL_TRACES_SAMPLER: optional(z.enum(samplers, { error: `write one of ${samplers.join(', ')}` })),
  OTEL_TRACES_SAMPLER_ARG: optional(
    z.coerce.number(shareOfTraces).min(0, shareOfTraces).max(1, shareOfTraces),
  ),
  OPERATOR_JWT_SECRET: optional(
    z
      .string()
      .refine((value) => Buffer.byteLength(value) >= 32, 'write at least 32 bytes: openssl rand -base64 48'),
  ),
  OPERATOR_JWKS_URL: httpUrl,
  OPERATOR_JWT_ISSUER: optional(z.string()),
  OPERATOR_JWT_AUDIENCE: optional(z.string()),
  OPERATOR_TOKEN_MAX_AGE: optional(
    z
      .string()
      .trim()
      .refine((text) => msOf(text) >= MINUTE && msOf(text) <= LONGEST_TOKEN_AGE_MS, TOKEN_AGE),
  ),
  WEBHOOK_CARDPAYMENTS_SECRET: optional(secrets),
  WEBHOOK_CARDPAYMENTS_SCHEME: optional(scheme),
  WEBHOOK_WALLETPAYMENTS_SECRET: optional(secrets),
  WEBHOOK_WALLETPAYMENTS_SCHEME: optional(scheme),
  WEBHOOK_IDENTITYPROVIDER_SECRET: optional(secrets),
  WEBHOOK_IDENTITYPROVIDER_SCHEME: optional(scheme),
});
