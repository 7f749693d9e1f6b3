import type { JWTPayload } from 'jose';
import { expect, test as base, vi } from 'vitest';
import { z } from 'zod';

import { accessRoutes } from '../../lib/console/access/routes.ts';
import { layout } from '../../lib/console/kit/layout.ts';
import type { Badges } from '../../lib/console/kit/layout.ts';
import { HOME } from '../../lib/console/kit/links.ts';
import { operatorRoute } from '../../lib/console/kit/route.ts';
import type { OperatorVisit } from '../../lib/console/kit/route.ts';
import type { OperatorSettings } from '../../lib/platform/config.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { html } from '../../lib/platform/markup.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { operatorFunction } from './operator-function.ts';
import { operatorClaims, operatorSettings, operatorToken } from './operator-token.ts';

export const ORIGIN = 'https://postbud.example';
export const NOON = Date.UTC(2026, 10, 21, 12);

/** A shared secret. */
export const shared: OperatorSettings = operatorSettings;

/** The issuer, the audience and the age that a token must have, whatever the key. */
export const expected = {
  issuer: operatorSettings.issuer,
  audience: operatorSettings.audience,
  maxAgeSeconds: operatorSettings.maxAgeSeconds,
};

let lines = '';

/** Vitest's `test` at noon, since a token's times and the reading of them are of one moment. `log` gives what was logged. */
export const test = base.extend('log', { auto: true }, ({}, { onCleanup }) => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOON });
  lines = '';
  const spy = vi
    .spyOn(process.stdout, 'write')
    .mockImplementation((text) => (lines += String(text)).length > 0);
  onCleanup(() => {
    vi.useRealTimers();
    spy.mockRestore();
  });
  return () => lines;
});

export interface ConsoleOptions {
  readonly settings?: OperatorSettings | (() => OperatorSettings);
  readonly badges?: () => Promise<Badges | null>;
  readonly limiter?: MemoryLimiter;
}

const seen = z.object({
  subject: z.string(),
  name: z.string(),
  via: z.enum(['bearer', 'cookie']),
  parameters: z.record(z.string(), z.string()),
});

/** A console with a page of each kind and the session's own pages; `visits` are those that it let in. */
export function consoleOf({
  settings = shared,
  badges = async () => ({ deadLetters: 3, happening: 1, pauses: [], names: new Map() }),
  limiter = new MemoryLimiter({ now: () => NOON }),
}: ConsoleOptions = {}) {
  const visits: Pick<OperatorVisit, 'operator' | 'parameters'>[] = [];
  const page = {
    scope: 'event-bus:read' as const,
    summary: 'A page',
    answer: seen,
    examples: {},
    handle: async ({ operator, parameters }: Pick<OperatorVisit, 'operator' | 'parameters'>) => {
      visits.push({ operator, parameters });
      const { subject, name, via } = operator;
      return { subject, name, via, parameters: { ...parameters } };
    },
    page: (_: unknown, context: Parameters<typeof layout>[1]) =>
      layout({ title: 'A page', section: 'overview', content: html`<p>at ${context.url.href}</p>` }, context),
  };
  const { fetch } = operatorFunction({
    settings,
    environment: 'Preview',
    badges,
    limiter,
    routes: [
      ...accessRoutes,
      operatorRoute({ ...page, id: 'home', path: HOME }),
      operatorRoute({
        ...page,
        id: 'topic',
        path: `${HOME}/topics/{topic}`,
        parameters: { topic: z.string() },
      }),
      operatorRoute({ ...page, id: 'preview', path: `${HOME}/replay` }),
      operatorRoute({
        ...page,
        id: 'replay',
        path: `${HOME}/replay`,
        scope: 'event-bus:replay',
        body: z.object({ topic: z.string('write a topic') }),
        answer: z.object({ replayed: z.string() }),
        handle: async (visit) => {
          await page.handle(visit);
          return { replayed: visit.body.topic };
        },
        redirectTo: () => `${HOME}/replays/1`,
      }),
      operatorRoute({
        ...page,
        id: 'missing',
        path: `${HOME}/missing`,
        unknown: 'There is no such dead letter.',
        handle: async () => null,
      }),
      operatorRoute({
        ...page,
        id: 'broken',
        path: `${HOME}/broken`,
        handle: async () => {
          throw new Error('connection to postgres://kanarifugl failed');
        },
      }),
    ],
  });
  return { fetch, visits };
}

export const BROWSER = {
  accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'sec-fetch-mode': 'navigate',
  'x-forwarded-for': '192.0.2.7',
};
export const OWN_PAGE = { ...BROWSER, 'sec-fetch-site': 'same-origin', origin: ORIGIN };
export const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

export interface Asking {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  /** Must not be in the answer, but for the cookie, nor in the log. */
  readonly token?: string;
}

/** Sends a request, and checks what holds of every answer. */
export async function ask({ fetch }: Pick<Endpoint, 'fetch'>, path: string, asking: Asking = {}) {
  const { method = 'GET', headers = {}, body, token: secret = '' } = asking;
  const response = await fetch(
    new Request(new URL(path, ORIGIN), { method, headers, ...(body !== undefined && { body }) }),
  );
  const text = await response.text();
  const answered = Object.fromEntries(response.headers);
  expect(answered).toMatchObject({
    vary: 'Accept, Cookie, Authorization',
    'cache-control': 'no-store',
    'x-request-id': expect.stringMatching(/^[\w-]{36}$/),
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
  });
  const { 'set-cookie': _, ...others } = answered;
  for (const part of secret.split('.').filter(({ length }) => length > 8)) {
    expect(text + JSON.stringify(others) + lines).not.toContain(part);
  }
  const type = answered['content-type'] ?? '';
  return {
    status: response.status,
    type,
    headers: answered,
    text,
    json: type.endsWith('json') && text ? (JSON.parse(text) as Record<string, unknown>) : {},
  };
}

/** Signs in by the form, as a page of ours sends it. */
export function signInWith(
  shownToken: string,
  next?: string,
  headers: Record<string, string> = OWN_PAGE,
): Asking {
  return {
    method: 'POST',
    headers: { ...headers, ...FORM },
    body: String(new URLSearchParams({ token: shownToken, ...(next !== undefined && { next }) })),
    token: shownToken,
  };
}

/** The hidden field of the form to sign in with; undefined where there is no form. */
export const nextIn = (page: string) =>
  /name="next"\s+value="([^"]*)"/.exec(page)?.[1]?.replaceAll('&amp;', '&');

export const now = () => Math.floor(Date.now() / SECOND);

/** The claims of a token that may read and replay, but for those that the test gives; undefined leaves one out. */
export const claimsOf = (claims: JWTPayload = {}): JWTPayload =>
  operatorClaims({ scope: 'event-bus:read event-bus:replay', ...claims });

export const token = (claims: JWTPayload = {}) => operatorToken(claimsOf(claims));

export const bearer = async (claims?: JWTPayload) => ({ authorization: `Bearer ${await token(claims)}` });
export const cookie = async (claims?: JWTPayload) => ({ cookie: `__Host-event-bus=${await token(claims)}` });
