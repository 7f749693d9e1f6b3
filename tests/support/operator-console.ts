import { SignJWT } from 'jose';
import type { JWTPayload } from 'jose';
import { expect, test as base, vi } from 'vitest';
import { z } from 'zod';

import type { OperatorSettings } from '../../lib/config.ts';
import type { Endpoint } from '../../lib/http/endpoint.ts';
import { notFound } from '../../lib/http/problem.ts';
import { operatorEndpoint, readSent } from '../../lib/operators/access/endpoint.ts';
import type { OperatorVisit } from '../../lib/operators/access/endpoint.ts';
import { sessionRoutes, signInLimits } from '../../lib/operators/access/routes.ts';
import { layout } from '../../lib/operators/page/layout.ts';
import { HOME } from '../../lib/operators/page/links.ts';
import { html } from '../../lib/operators/page/markup.ts';
import { MemoryLimiter } from '../../lib/rate-limit/memory.ts';
import { createVisitors } from '../../lib/rate-limit/visitors.ts';
import { SECOND } from '../../lib/time.ts';
import { OPERATOR_SECRET, OPERATOR_SETTINGS } from './operator-server.ts';

export const ORIGIN = 'https://postbud.example';
export const NOON = Date.UTC(2026, 10, 21, 12);

/** A shared secret. */
export const shared: OperatorSettings = OPERATOR_SETTINGS;

/** The issuer, the audience and the age that a token must have, whatever the key. */
export const expected = {
  issuer: OPERATOR_SETTINGS.issuer,
  audience: OPERATOR_SETTINGS.audience,
  maxAgeSeconds: OPERATOR_SETTINGS.maxAgeSeconds,
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
  readonly deadLetters?: () => Promise<number | null>;
  readonly limiter?: MemoryLimiter;
}

/** A console with a page of each kind and the session's own pages; `visits` are those that it let in. */
export function consoleOf({
  settings = shared,
  deadLetters = async () => 3,
  limiter = new MemoryLimiter({ now: () => NOON }),
}: ConsoleOptions = {}) {
  const visits: Pick<OperatorVisit, 'operator' | 'parameters'>[] = [];
  const visitors = createVisitors({ isBehindPlatform: true });
  const settingsNow = typeof settings === 'function' ? settings : () => settings;
  const shown = async ({ operator, parameters, url }: OperatorVisit) => {
    visits.push({ operator, parameters });
    return {
      json: { subject: operator.subject, name: operator.name, via: operator.via, parameters },
      page: (context: Parameters<typeof layout>[1]) =>
        layout({ title: 'A page', section: null, content: html`<p>at ${url.href}</p>` }, context),
    };
  };
  const read = (path: string, handle: (visit: OperatorVisit) => ReturnType<typeof shown>) =>
    ({ method: 'GET', path: HOME + path, scope: 'event-bus:read', handle }) as const;
  const { fetch }: Endpoint = operatorEndpoint({
    settings: settingsNow,
    environment: () => 'Preview',
    deadLetters,
    routes: [
      ...sessionRoutes({
        settings: settingsNow,
        visitorLimits: () => ({ limiter, visitors, limits: signInLimits }),
      }),
      read('', shown),
      read('/topics/:topic', shown),
      read('/replay', shown),
      read('/missing', () =>
        Promise.reject(notFound('no_such_dead_letter', 'There is no such dead letter.')),
      ),
      read('/broken', () => Promise.reject(new Error('connection to postgres://kanarifugl failed'))),
      {
        method: 'POST',
        path: `${HOME}/replay`,
        scope: 'event-bus:replay',
        handle: async (visit) => {
          const sent = await readSent(visit.request, z.object({ topic: z.string('write a topic') }));
          await shown(visit);
          return { json: { replayed: sent.topic }, seeOther: `${HOME}/replays/1` };
        },
      },
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

/** The claims of a good token, but for what the test says otherwise; a claim that is undefined is left out. */
export const claimsOf = (claims: JWTPayload = {}): JWTPayload => ({
  iss: expected.issuer,
  aud: expected.audience,
  sub: 'kari@solvik.example.no',
  iat: now(),
  exp: now() + 300,
  scope: 'event-bus:read event-bus:replay',
  ...claims,
});

export const token = (claims: JWTPayload = {}) =>
  new SignJWT(claimsOf(claims))
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(Buffer.from(OPERATOR_SECRET));

export const bearer = async (claims?: JWTPayload) => ({ authorization: `Bearer ${await token(claims)}` });
export const cookie = async (claims?: JWTPayload) => ({ cookie: `__Host-event-bus=${await token(claims)}` });
