import { generateKeyPair, SignJWT } from 'jose';
import { describe, expect } from 'vitest';

import { keepNote, readNote } from '../../lib/console/access/session.ts';
import { HOME } from '../../lib/console/kit/links.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { FORM, OWN_PAGE } from '../support/operator-console.ts';
import { operatorFunction } from '../support/operator-function.ts';
import { operatorClaims, operatorSettings, operatorToken } from '../support/operator-token.ts';
import { test } from '../support/operator-test.ts';
import { freePort } from '../support/postgres.ts';

const ORIGIN = 'https://postbud.example';

const LINK_LIFE_MS = 10 * MINUTE;

const consoleOf = ({ db }: Bus) => operatorFunction({ settings: operatorSettings, db: () => db });

async function ask(bus: Bus, path: string, init: RequestInit = {}): Promise<Response> {
  return await consoleOf(bus).fetch(new Request(new URL(path, ORIGIN), init));
}

const open = async (bus: Bus, code: string, headers: Record<string, string> = OWN_PAGE) =>
  await ask(bus, `${HOME}/sign-in`, {
    method: 'POST',
    headers: { ...headers, ...FORM },
    body: new URLSearchParams({ code }).toString(),
  });

const cookieOf = (answer: Response) => answer.headers.get('set-cookie')?.split(';')[0];

async function linkFor(bus: Bus, token: string): Promise<URL> {
  const answer = await ask(bus, `${HOME}/sign-in/links`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{}',
  });
  const { url, expiresInSeconds } = (await answer.json()) as { url: string; expiresInSeconds: number };
  expect(expiresInSeconds).toBe(LINK_LIFE_MS / SECOND);
  return new URL(url);
}

const keepToken = (bus: Bus, text: string) => keepNote(bus.db, 'sign-in', { text, lifeMs: LINK_LIFE_MS });

const codeIn = (link: URL) => link.searchParams.get('code')!;

describe('a sign-in link', () => {
  test('is short, signs in with the token it was made for, and works once', async ({ bus }) => {
    const token = await operatorToken();
    const link = await linkFor(bus, token);
    expect(link.href.length).toBeLessThan(100);
    const first = await open(bus, codeIn(link));
    expect([first.status, first.headers.get('location')]).toEqual([303, HOME]);
    expect(cookieOf(first)).toBe(`__Host-event-bus=${token}`);
    const second = await open(bus, codeIn(link));
    expect([second.status, second.headers.get('set-cookie')]).toEqual([410, null]);
    const page = await second.text();
    expect(page).toContain('The link was used already, or is older than 10 minutes.');
    expect(page).toContain('npm run token');
    expect(page).toContain('name="token"');
  });

  test('is not used up by those who only open it, such as the preview of a chat', async ({ bus }) => {
    const link = await linkFor(bus, await operatorToken());
    for (const method of ['GET', 'HEAD', 'GET']) {
      const answer = await ask(bus, link.pathname + link.search, { method, headers: OWN_PAGE });
      expect([answer.status, answer.headers.get('set-cookie')]).toEqual([200, null]);
    }
    expect((await open(bus, codeIn(link))).status).toBe(303);
  });

  test('signs in one of two who use it at the same time', async ({ bus }) => {
    const code = codeIn(await linkFor(bus, await operatorToken()));
    const answers = await Promise.all([open(bus, code), open(bus, code)]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([303, 410]);
  });

  test('is refused when its time is over, and the next link that is made deletes it', async ({ bus }) => {
    const code = codeIn(await linkFor(bus, await operatorToken()));
    await rows(bus.db, `update sign_in_codes set expires_at = now() - interval '1 second'`);
    expect((await open(bus, code)).status).toBe(410);
    expect(await rows(bus.db, 'select from sign_in_codes')).toHaveLength(1);
    await linkFor(bus, await operatorToken());
    expect(await rows(bus.db, 'select from sign_in_codes where expires_at < now()')).toEqual([]);
  });

  test('is valid for ten minutes', async ({ bus }) => {
    await linkFor(bus, await operatorToken());
    const [{ seconds } = { seconds: 0 }] = await rows<{ seconds: number }>(
      bus.db,
      'select extract(epoch from expires_at - now())::int as seconds from sign_in_codes',
    );
    expect(seconds).toBe(LINK_LIFE_MS / SECOND);
  });

  test('is refused with the code of another, cut off or made up', async ({ bus }) => {
    await linkFor(bus, await operatorToken());
    const refused = async (code: string) => {
      const answer = await open(bus, code);
      return [answer.status, await answer.text()] as const;
    };
    expect(await refused('A'.repeat(22))).toEqual([410, expect.stringContaining('was used already')]);
    const cut = expect.stringContaining('expected 22 letters, digits, _ or -, as in the link');
    expect(await refused('A'.repeat(21))).toEqual([400, cut]);
    expect(await rows(bus.db, 'select from sign_in_codes')).toHaveLength(1);
  });

  test('is not used up while the key server is down', async ({ bus }) => {
    const { privateKey } = await generateKeyPair('RS256');
    const token = new SignJWT(operatorClaims()).setProtectedHeader({ alg: 'RS256' });
    const code = await keepToken(bus, await token.sign(privateKey));
    const { issuer, audience, maxAgeSeconds } = operatorSettings;
    const url = `http://127.0.0.1:${await freePort()}/`;
    const down = operatorFunction({
      settings: { issuer, audience, maxAgeSeconds, kind: 'jwks', url },
      db: () => bus.db,
    });
    const answer = await down.fetch(
      new Request(new URL(`${HOME}/sign-in`, ORIGIN), {
        method: 'POST',
        headers: { ...OWN_PAGE, ...FORM },
        body: new URLSearchParams({ code }).toString(),
      }),
    );
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([503, null]);
    expect(await rows(bus.db, 'select from sign_in_codes')).toHaveLength(1);
  });

  test('is not used up by a form of another site', async ({ bus }) => {
    const code = codeIn(await linkFor(bus, await operatorToken()));
    const elsewhere = { ...OWN_PAGE, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };
    expect((await open(bus, code, elsewhere)).status).toBe(403);
    expect((await open(bus, code)).status).toBe(303);
  });

  test('leaves neither its code nor its token in the database', async ({ bus }) => {
    const code = await keepToken(bus, 'a-token-that-nobody-may-read');
    const [row] = await rows<{ hash: Buffer; sealed: Buffer }>(
      bus.db,
      'select hash, sealed from sign_in_codes',
    );
    const kept = Buffer.concat([row!.hash, row!.sealed]).toString('latin1');
    for (const secret of [
      code,
      Buffer.from(code, 'base64url').toString('latin1'),
      'a-token-that-nobody-may-read',
    ])
      expect(kept).not.toContain(secret);
    expect(await readNote(bus.db, 'sign-in', code)).toBe('a-token-that-nobody-may-read');
  });

  test('is no session, and a session no link, under the same code', async ({ bus }) => {
    const code = await keepToken(bus, await operatorToken());
    expect(await readNote(bus.db, 'session', code)).toBeNull();
    expect(await readNote(bus.db, 'sign-in-under-way', code)).toBeNull();
    const answer = await ask(bus, HOME, { headers: { ...OWN_PAGE, cookie: `__Host-event-bus=${code}` } });
    expect(answer.status).toBe(401);
  });

  test('can be made only with a valid token', async ({ bus }) => {
    const answer = await ask(bus, `${HOME}/sign-in/links`, {
      method: 'POST',
      headers: { authorization: 'Bearer a.b.c', 'content-type': 'application/json' },
      body: '{}',
    });
    expect(answer.status).toBe(401);
    expect(await rows(bus.db, 'select from sign_in_codes')).toEqual([]);
  });
});
