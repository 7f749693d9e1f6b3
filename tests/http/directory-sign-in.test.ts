import { hkdfSync } from 'node:crypto';

import { sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';

import type { DirectoryBehaviour } from '../../dev/stand-ins/directory.ts';
import { signInCodes } from '../../drizzle/schema.ts';
import { keepNote, spendNote } from '../../lib/console/access/session.ts';
import { HOME } from '../../lib/console/kit/links.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import { MAPPING, settingsOf, SHAPES } from '../support/directory-tokens.ts';
import { KARI, leadsTo, OLA, PER, test, Visitor } from '../support/directory-visitor.ts';
import { nextIn } from '../support/operator-console.ts';
import { operatorRoutes } from '../support/operator-function.ts';
import { operatorToken } from '../support/operator-token.ts';

const NEXT = `${HOME}/dead-letters?topic=payment.captured&since=24h`;

const CALLBACK = `${HOME}/sign-in/directory/callback`;

const UNSENT = JSON.stringify({
  path: `${HOME}/replay`,
  summary: 'Replay dead letters',
  scope: 'event-bus:replay',
  fields: { topic: 'payment.captured', reason: 'the account is open again' },
});

const attributesOf = (cookie: string | null) => String(cookie).split('; ').slice(1).toSorted();

describe('signing in with the directory', () => {
  test('leads to the directory with PKCE, a state and a nonce, and tells the browser from others', async ({
    visitor,
    directory,
  }) => {
    const { status, headers, text } = await visitor.send('/sign-in/directory', { next: NEXT });
    const there = leadsTo(text)!;
    expect([status, there.origin, there.pathname]).toEqual([200, directory.issuer, '/authorize']);
    expect(Object.fromEntries(there.searchParams)).toEqual({
      client_id: 'postbud',
      response_type: 'code',
      response_mode: 'query',
      scope: 'openid profile',
      redirect_uri: `http://localhost:3000${CALLBACK}`,
      code_challenge_method: 'S256',
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(headers.get('set-cookie')).toMatch(/^__Host-event-bus-sign-in=[\w-]{22};/);
    const attributes = ['HttpOnly', 'Max-Age=3600', 'Path=/', 'SameSite=Lax', 'Secure'];
    expect(attributesOf(headers.get('set-cookie'))).toEqual(attributes);
  });

  test('ends on the page that was asked for first, in a session of an hour', async ({ visitor }) => {
    expect((await visitor.open(NEXT)).status).toBe(401);
    const { status, headers, text } = await visitor.signIn(KARI, { next: NEXT });
    expect([status, leadsTo(text)?.href]).toEqual([200, `http://localhost:3000${NEXT}`]);
    expect(headers.get('set-cookie')).toMatch(/^__Host-event-bus=[\w-]{22};/);
    const attributes = ['HttpOnly', 'Max-Age=3600', 'Path=/', 'SameSite=Strict', 'Secure'];
    expect(attributesOf(headers.get('set-cookie'))).toEqual(attributes);
    const page = await visitor.open(NEXT);
    expect(page.status).toBe(200);
    expect(page.text).toContain('Kari Nordmann');
  });

  test('is offered on the page to sign in, before the token', async ({ visitor, directory }) => {
    const { text } = await visitor.open(`${HOME}/sign-in`);
    const { host } = new URL(directory.issuer);
    expect(text.indexOf(`Sign in with ${host}`)).toBeGreaterThan(0);
    expect(text.indexOf(`Sign in with ${host}`)).toBeLessThan(text.indexOf('Access token'));
  });

  test('leads nowhere but to pages of the console', async ({ visitor }) => {
    const { text } = await visitor.signIn(KARI, { next: '//evil.example/platform/event-bus' });
    expect(leadsTo(text)?.href).toBe(`http://localhost:3000${HOME}`);
  });

  test('brings a form that was sent without a session back to its page', async ({ visitor }) => {
    const { text } = await visitor.signIn(KARI, { next: NEXT, unsent: UNSENT });
    expect(leadsTo(text)).toBeNull();
    expect(text).toContain(`action="${NEXT.replaceAll('&', '&amp;')}&amp;unsent=1" data-send`);
    const shown = await visitor.open(`${NEXT}&unsent=1`, {
      method: 'POST',
      body: new URLSearchParams({ unsent: UNSENT }),
    });
    expect(shown.text).toContain('Not sent yet');
    expect(shown.text).toContain('the account is open again');
  });

  test('works in two tabs at the same time', async ({ visitor }) => {
    const first = await visitor.answered(KARI, { next: `${HOME}/replays` });
    const second = await visitor.answered(OLA, { next: `${HOME}/events` });
    for (const [answer, next] of [
      [second, 'events'],
      [first, 'replays'],
    ] as const) {
      const { status, text } = await visitor.open(answer, {}, 'cross-site');
      expect([status, leadsTo(text)?.pathname]).toEqual([200, `${HOME}/${next}`]);
    }
    expect((await visitor.open(HOME)).text).toContain('Kari Nordmann');
  });

  test('is begun in one process and answered in another', async ({ visitor, directory, bus }) => {
    const answer = await visitor.answered(KARI, { next: NEXT });
    const other = new Visitor(directory, () => bus.db);
    for (const [name, value] of visitor.cookies) other.cookies.set(name, value);
    expect(leadsTo((await other.open(answer, {}, 'cross-site')).text)?.href).toBe(
      `http://localhost:3000${NEXT}`,
    );
    for (const [name, value] of other.cookies) visitor.cookies.set(name, value);
    expect((await visitor.open(NEXT)).status).toBe(200);
  });

  test('is refused from another site, and to a visitor who tries it more than ten times a minute', async ({
    visitor,
  }) => {
    const begin = (site: string) =>
      visitor.open(
        `${HOME}/sign-in/directory`,
        { method: 'POST', headers: { origin: 'https://evil.example' }, body: new URLSearchParams() },
        site,
      );
    expect((await begin('cross-site')).status).toBe(403);
    const statuses = [];
    for (let index = 0; index < 11; index += 1) statuses.push((await begin('same-origin')).status);
    expect(statuses).toEqual([...Array<number>(10).fill(200), 429]);
  });

  test('keeps the page and the form of the eleventh try in a minute, with the directory and with a token', async ({
    visitor,
  }) => {
    for (const [path, fields] of [
      ['/sign-in/directory', { next: NEXT }],
      ['/sign-in', { next: NEXT, token: 'a.b.c' }],
    ] as const) {
      // All within one minute of the clock.
      if (Date.now() % MINUTE > 50 * SECOND) await sleep(MINUTE - (Date.now() % MINUTE));
      for (let index = 0; index < 10; index += 1) await visitor.send(path, fields);
      const { status, headers, text } = await visitor.send(path, { ...fields, unsent: UNSENT });
      expect([status, headers.get('retry-after')]).toEqual([429, expect.stringMatching(/^\d+$/)]);
      expect(text).toContain('Too many calls: 10 are allowed in a minute.');
      expect(text).toContain('the account is open again');
      expect(nextIn(text)).toBe(NEXT);
      expect(text).not.toContain('aria-invalid');
    }
  });

  test('keeps no name and no token in the database that somebody could read', async ({ visitor, bus }) => {
    const { headers } = await visitor.signIn(KARI);
    const handle = /=([\w-]{22});/.exec(headers.get('set-cookie') ?? '')?.[1] ?? '';
    const kept = await rows<{ hash: Buffer; sealed: Buffer }>(
      bus.db,
      'select hash, sealed from sign_in_codes',
    );
    expect(kept).toHaveLength(1);
    const text = kept.map(({ hash, sealed }) => Buffer.concat([hash, sealed]).toString('latin1')).join('');
    for (const secret of ['Kari', handle]) expect(text).not.toContain(secret);
    // A token begins like the header of the seal, which is there once.
    expect(text.split('eyJ')).toHaveLength(2);
  });
});

describe('an answer of the directory that is not right', () => {
  const cases: readonly (readonly [DirectoryBehaviour, number, string, string, string | undefined])[] = [
    ['wrong nonce', 502, 'directory_answer_invalid', 'it belongs to another sign-in (nonce)', 'nonce'],
    ['wrong audience', 502, 'directory_answer_invalid', 'it is for another application (aud)', 'aud'],
    ['wrong issuer', 502, 'directory_answer_invalid', 'it is from another issuer (iss)', 'iss'],
    [
      'wrong issuer in the address',
      502,
      'directory_answer_invalid',
      'it is from another issuer (iss)',
      'iss',
    ],
    ['expired', 502, 'directory_answer_invalid', 'it has expired, or does not say when (exp)', 'exp'],
    ['wrong signature', 502, 'directory_answer_invalid', 'its signature or its form is wrong', undefined],
    ['unsigned', 502, 'directory_answer_invalid', 'its signature or its form is wrong', undefined],
    ['shared secret', 502, 'directory_answer_invalid', 'its signature or its form is wrong', undefined],
    ['code used twice', 502, 'directory_answer_invalid', 'did not take its own code', undefined],
    ['denied', 403, 'directory_refused', 'you declined, or may not use this application', undefined],
    [500, 503, 'directory_unavailable', 'No usable answer from the directory', undefined],
  ];

  test.for(cases)(
    'with the directory’s mistake “%s” nobody is signed in: %i %s',
    async ([how, status, code, words, claim], { visitor, directory, output }) => {
      const answer = async () => {
        const back = await visitor.answered(KARI, { next: NEXT, unsent: UNSENT });
        if (typeof how === 'number') directory.behave(how);
        return back;
      };
      if (typeof how !== 'number') directory.behave(how);
      const page = await visitor.open(await answer(), {}, 'cross-site');
      expect([page.status, page.headers.get('set-cookie')]).toEqual([status, null]);
      expect(page.text).toContain(words);
      // Both are there to try again with.
      expect(nextIn(page.text)).toBe(NEXT);
      expect(page.text).toContain('the account is open again');
      if (typeof how === 'number') directory.behave('right');
      const asked = await answer();
      const asProgram = await visitor.open(asked, { headers: { accept: 'application/json' } }, 'cross-site');
      expect(JSON.parse(asProgram.text)).toMatchObject({ status, code });
      expect((await visitor.open(HOME)).status).toBe(401);
      const logged = output.text();
      if (claim !== undefined) expect(logged).toContain(`"claim":"${claim}"`);
      expect(logged).not.toContain('eyJ');
      expect(logged).not.toContain(asked.searchParams.get('code') ?? 'no code');
    },
  );

  test('is taken once, with the state and in the browser that it belongs to, within an hour', async ({
    visitor,
    directory,
    bus,
  }) => {
    const answer = await visitor.answered(KARI);
    const otherState = new URL(answer);
    otherState.searchParams.set('state', 'x'.repeat(43));
    const elsewhere = new Visitor(directory, () => bus.db);
    await elsewhere.send('/sign-in/directory');
    for (const refused of [
      await visitor.open(otherState, {}, 'cross-site'),
      await elsewhere.open(answer, {}, 'cross-site'),
      await new Visitor(directory, () => bus.db).open(answer, {}, 'cross-site'),
    ]) {
      expect([refused.status, refused.headers.get('set-cookie')]).toEqual([410, null]);
      expect(refused.text).toContain('This sign-in was finished already, was begun in another browser');
    }
    expect(leadsTo((await visitor.open(answer, {}, 'cross-site')).text)).not.toBeNull();
    expect((await visitor.open(answer, {}, 'cross-site')).status).toBe(410);
    const late = await visitor.answered(KARI);
    const [row] = await rows<{ seconds: number }>(
      bus.db,
      'select extract(epoch from expires_at - now())::int as seconds from sign_in_codes order by expires_at desc',
    );
    expect(row?.seconds).toBe(HOUR / SECOND);
    await rows(bus.db, `update sign_in_codes set expires_at = now() - interval '1 second'`);
    expect((await visitor.open(late, {}, 'cross-site')).status).toBe(410);
  });

  test('is refused when it is posted', async ({ visitor }) => {
    const answer = await visitor.answered(KARI);
    const posted = await visitor.open(
      answer.pathname,
      { method: 'POST', body: answer.searchParams, headers: { accept: 'application/json' } },
      'cross-site',
    );
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    expect(posted.text).toContain('POST is not allowed here. Use GET or HEAD.');
    expect((await visitor.open(answer, {}, 'cross-site')).status).toBe(200);
  });

  test('is not taken by a HEAD of its address, which checkers of links send', async ({ visitor, bus }) => {
    const answer = await visitor.answered(KARI);
    const head = await visitor.open(answer, { method: 'HEAD' }, 'cross-site');
    expect([head.status, head.headers.get('set-cookie')]).toEqual([200, null]);
    expect(await rows(bus.db, 'select from sign_in_codes')).toHaveLength(1);
    const { headers } = await visitor.open(answer, {}, 'cross-site');
    expect(headers.get('set-cookie')).toMatch(/^__Host-event-bus=[\w-]{22};/);
  });

  test('says nothing on the page that the address says', async ({ visitor }) => {
    const answer = await visitor.answered(KARI);
    answer.searchParams.delete('code');
    answer.searchParams.set('error', 'call_the_number_below');
    answer.searchParams.set('error_description', 'Call 555-0100');
    const { status, text } = await visitor.open(answer, {}, 'cross-site');
    expect(status).toBe(403);
    expect(text).toContain('it gives a reason that is not known here (unknown)');
    expect(text).not.toMatch(/call_the|555/);
  });

  test('is no matter of a directory that is away before: the page says so, and keeps the form', async ({
    visitor,
    directory,
  }) => {
    directory.behave(503);
    const page = await visitor.send('/sign-in/directory', { next: NEXT, unsent: UNSENT });
    expect([page.status, page.headers.get('retry-after')]).toEqual([503, '30']);
    expect(page.text).toContain(`No usable answer from the directory ${new URL(directory.issuer).host}`);
    expect(page.text).toContain('the account is open again');
    expect(page.text).toContain('Access token');
    directory.behave('right');
    expect(leadsTo((await visitor.signIn(KARI)).text)).not.toBeNull();
  });
});

test('the doctor says that nobody can sign in while the directory gives no usable answer', async ({
  visitor,
  directory,
}) => {
  const doctor = () => visitor.open(`${HOME}/doctor`, { headers: { authorization: `Bearer ${machine}` } });
  const machine = await operatorToken();
  directory.behave(503);
  const { host } = new URL(directory.issuer);
  expect((await doctor()).text).toContain(`The directory ${host} gives no usable answer: nobody can sign in`);
  directory.behave('right');
  expect((await doctor()).text).not.toContain('gives no usable answer');
});

describe('a token of a sign-in', () => {
  test.for([
    ['tomorrow', HOUR * 24],
    ['two hours ago', HOUR * -2],
  ] as const)('that was issued %s is not taken', async ([, ageMs], { visitor, directory }) => {
    const iat = Math.floor((Date.now() + ageMs) / SECOND);
    directory.employ({ kari: { sub: 'kari', groups: ['/drift'], iat, exp: iat + (3 * HOUR) / SECOND } });
    const { status, headers, text } = await visitor.signIn('kari');
    expect([status, headers.get('set-cookie')]).toEqual([502, null]);
    expect(text).toContain('it was issued at a time that cannot be, or does not say when (iat)');
  });

  test.for([
    ['exp', 'it has expired, or does not say when (exp)'],
    ['iat', 'or does not say when (iat)'],
  ] as const)('that has no %s is not taken', async ([claim, words], { visitor, directory }) => {
    directory.employ({ kari: { sub: 'kari', groups: ['/drift'], [claim]: undefined } });
    const { status, headers, text } = await visitor.signIn('kari');
    expect([status, headers.get('set-cookie')]).toEqual([502, null]);
    expect(text).toContain(words);
  });

  test('that Entra ID has dated five minutes back is taken', async ({ visitor, directory }) => {
    const iat = Math.floor((Date.now() - 5 * MINUTE) / SECOND);
    directory.employ({ kari: { sub: 'kari', groups: ['/drift'], iat } });
    expect((await visitor.signIn('kari')).status).toBe(200);
  });
});

test.for(Object.keys(SHAPES))(
  'a program reads the console with a token of %s',
  async (shape, { visitor, directory }) => {
    visitor.settings = settingsOf(directory, { OPERATOR_OIDC_ROLES: MAPPING });
    const authorization = `Bearer ${await directory.tokenOf(SHAPES[shape]!)}`;
    const asProgram = { headers: { authorization, accept: 'application/json' } };
    expect((await visitor.open(HOME, asProgram)).status).toBe(200);
    const erasure = { ...asProgram, method: 'POST', body: new URLSearchParams() };
    expect((await visitor.open(`${HOME}/erasures`, erasure)).status).toBe(403);
  },
);

describe('a person without a role', () => {
  test('reads who they are and which roles the directory sent, and can come as someone else', async ({
    visitor,
    output,
  }) => {
    const { status, headers, text } = await visitor.signIn(PER, { next: NEXT });
    expect([status, headers.get('set-cookie')]).toEqual([403, null]);
    expect(text).toContain('Signed in as Per Bibliotek, but none of your roles is mapped.');
    expect(text).toContain('The directory sent /ansatte, /bibliotek.');
    expect(output.text()).toContain('"claims":["groups"],"roles":2');
    expect(output.text()).not.toMatch(/Bibliotek|bibliotek|eyJ/);
    expect(text).toContain('name="anew"');
    const again = await visitor.send('/sign-in/directory', { next: NEXT, anew: 'true' });
    expect(leadsTo(again.text)?.searchParams.get('prompt')).toBe('login');
  });

  test('is told why Entra ID sends no groups of someone who is in too many', async ({
    visitor,
    directory,
  }) => {
    directory.employ({ many: { sub: 'many', name: 'Mona', _claim_names: { groups: 'src1' } } });
    const { status, text } = await visitor.signIn('many');
    expect(status).toBe(403);
    expect(text).toContain(
      'The directory sent none. You are in more groups than a token of the directory holds',
    );
  });

  test('is refused also where the roles give something else than to read', async ({ visitor, directory }) => {
    visitor.settings = settingsOf(directory, {
      OPERATOR_OIDC_ROLES: '/bibliotek=event-bus:replay,/drift=event-bus:read',
    });
    const { status, text } = await visitor.signIn(PER);
    expect(status).toBe(403);
    expect(text).toContain('None of your roles gives event-bus:read.');
  });
});

describe('a session of the directory', () => {
  test('ends at once on signing out, for whoever has its cookie, and at the directory', async ({
    visitor,
    directory,
    bus,
  }) => {
    await visitor.signIn(KARI);
    const old = new Map(visitor.cookies);
    const { text, headers } = await visitor.send('/sign-out');
    const there = leadsTo(text)!;
    expect([there.origin, there.pathname]).toEqual([directory.issuer, '/sign-out']);
    expect(Object.fromEntries(there.searchParams)).toEqual({
      client_id: 'postbud',
      id_token_hint: expect.stringMatching(/^eyJ/),
      post_logout_redirect_uri: `http://localhost:3000${HOME}/sign-in`,
    });
    expect(headers.get('set-cookie')).toContain('__Host-event-bus=; Max-Age=0');
    expect(await rows(bus.db, 'select from sign_in_codes')).toEqual([]);
    for (const [name, value] of old) visitor.cookies.set(name, value);
    const after = await visitor.open(NEXT);
    expect(after.status).toBe(401);
    expect(after.text).toContain('Your session has ended. Sign in again.');
  });

  test('ends at the directory also for someone whose groups make too long a token for an address', async ({
    visitor,
    directory,
  }) => {
    const groups = Array.from({ length: 200 }, (_, index) => `/kommune/avdeling/${index}`);
    directory.employ({ many: { sub: 'many', groups: [...groups, '/drift'] } });
    await visitor.signIn('many');
    const there = leadsTo((await visitor.send('/sign-out')).text)!;
    expect(Object.fromEntries(there.searchParams)).toEqual({
      client_id: 'postbud',
      post_logout_redirect_uri: `http://localhost:3000${HOME}/sign-in`,
    });
  });

  test('ends when the same browser signs in again, with the directory or with a token', async ({
    visitor,
    directory,
    bus,
  }) => {
    const again = {
      directory: async () => {
        const answer = await visitor.answered(OLA);
        // A browser that comes from the directory leaves this one out.
        visitor.cookies.delete('__Host-event-bus');
        return await visitor.open(answer, {}, 'cross-site');
      },
      token: async () => await visitor.send('/sign-in', { token: await operatorToken() }),
    };
    for (const signIn of Object.values(again)) {
      await visitor.signIn(KARI);
      const elsewhere = new Visitor(directory, () => bus.db);
      for (const [name, value] of visitor.cookies) elsewhere.cookies.set(name, value);
      expect((await elsewhere.open(HOME)).status).toBe(200);
      expect((await signIn()).headers.get('set-cookie')).toMatch(/^__Host-event-bus=/);
      expect((await elsewhere.open(HOME)).status).toBe(401);
      expect((await visitor.open(HOME)).status).toBe(200);
    }
  });

  test('lasts while another sign-in of its browser is refused', async ({ visitor, directory }) => {
    await visitor.signIn(KARI);
    directory.behave('denied');
    expect((await visitor.signIn(OLA)).status).toBe(403);
    expect((await visitor.send('/sign-in', { token: 'a.b.c' })).status).toBe(401);
    expect((await visitor.open(HOME)).text).toContain('Kari Nordmann');
  });

  test('ends after an hour', async ({ visitor, bus }) => {
    await visitor.signIn(KARI);
    const [row] = await rows<{ seconds: number }>(
      bus.db,
      'select extract(epoch from expires_at - now())::int as seconds from sign_in_codes',
    );
    expect(row?.seconds).toBe(3600);
    await rows(bus.db, 'update sign_in_codes set expires_at = now()');
    expect((await visitor.open(NEXT)).status).toBe(401);
  });

  test('has the scopes that the roles have now, and ends with the last of them', async ({
    visitor,
    directory,
  }) => {
    await visitor.signIn(KARI);
    const forget = () => visitor.send('/replay', { topic: 'payment.captured', since: '24h' });
    expect((await forget()).status).not.toBe(403);
    visitor.settings = settingsOf(directory, { OPERATOR_OIDC_ROLES: '/drift=event-bus:read' });
    expect((await visitor.open(HOME)).status).toBe(200);
    expect((await forget()).status).toBe(403);
    visitor.settings = settingsOf(directory, { OPERATOR_OIDC_ROLES: '/bibliotek=event-bus:read' });
    expect((await visitor.open(HOME)).status).toBe(401);
  });

  test('is none where the directory is another, or none is configured any longer', async ({
    visitor,
    directory,
  }) => {
    await visitor.signIn(KARI);
    visitor.settings = settingsOf(directory, { OPERATOR_OIDC_CLIENT_ID: 'another' });
    expect((await visitor.open(HOME)).status).toBe(401);
    const { directory: _, ...others } = settingsOf(directory);
    visitor.settings = others;
    expect((await visitor.open(HOME)).status).toBe(401);
  });

  test('opens nothing while the database cannot be read', async ({ visitor, directory, bus }) => {
    await visitor.signIn(KARI);
    const away = new Visitor(directory, (): Database => {
      throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    });
    for (const [name, value] of visitor.cookies) away.cookies.set(name, value);
    const page = await away.open(HOME);
    expect(page.status).toBe(503);
    expect(page.text).toContain('No answer from the database since');
    expect((await away.send('/sign-out')).status).toBe(503);
    expect(await rows(bus.db, 'select from sign_in_codes')).toHaveLength(1);
  });

  test('has ended where another release has kept it otherwise, and so has a sign-in under way', async ({
    visitor,
    bus,
  }) => {
    await visitor.signIn(KARI);
    const handle = visitor.cookies.get('__Host-event-bus')!;
    await spendNote(bus.db, 'session', handle);
    await keepNote(bus.db, 'session', { handle, text: '{"person":"kari"}', lifeMs: HOUR });
    const page = await visitor.open(HOME);
    expect([page.status, page.text]).toEqual([401, expect.stringContaining('Your session has ended.')]);
    expect((await visitor.send('/sign-out')).status).toBe(303);
    const answer = await visitor.answered(KARI);
    const begun = visitor.cookies.get('__Host-event-bus-sign-in')! + answer.searchParams.get('state');
    await spendNote(bus.db, 'sign-in-under-way', begun);
    await keepNote(bus.db, 'sign-in-under-way', { handle: begun, text: '{}', lifeMs: HOUR });
    expect((await visitor.open(answer, {}, 'cross-site')).status).toBe(410);
  });

  test('of the release before, which sealed by another name, is not known', async ({ visitor, bus }) => {
    const handle = 'A'.repeat(22);
    const hash = hkdfSync('sha256', handle, '', 'postbud session hash', 32);
    await bus.db.insert(signInCodes).values({
      hash: Buffer.from(hash),
      sealed: Buffer.alloc(64),
      expiresAt: sql`now() + interval '1 hour'`,
    });
    visitor.cookies.set('__Host-event-bus', handle);
    expect((await visitor.open(HOME)).status).toBe(401);
  });

  test('makes no sign-in links, which are for tokens', async ({ visitor }) => {
    await visitor.signIn(KARI);
    expect((await visitor.send('/sign-in/links')).status).toBe(401);
  });

  test('changes nothing for a page of another site', async ({ visitor }) => {
    await visitor.signIn(KARI);
    const forged = { method: 'POST', body: new URLSearchParams({ topic: 'payment.captured' }) };
    expect((await visitor.open(`${HOME}/replay`, forged, 'cross-site')).status).toBe(403);
  });

  test('is beside those of tokens, which go on as they did', async ({ visitor }) => {
    const signedIn = await visitor.send('/sign-in', { token: await operatorToken() });
    expect(signedIn.status).toBe(303);
    expect((await visitor.open(HOME)).text).toContain('kari@solvik.example.no');
    const signedOut = await visitor.send('/sign-out');
    expect([signedOut.status, signedOut.headers.get('location')]).toEqual([303, `${HOME}/sign-in`]);
  });
});

describe('the reading role', () => {
  const pathOf = (path: string) => path.replaceAll(/\{\w+\}/g, '1-1');
  const beyond = operatorRoutes.filter(({ access }) => access !== 'anyone' && access !== 'event-bus:read');

  test('is let into no route that needs more', async ({ visitor }) => {
    await visitor.signIn(OLA);
    expect(beyond.length).toBeGreaterThan(20);
    for (const { method, path, access } of beyond) {
      const { status, text } = await visitor.open(pathOf(path), {
        method: method.toUpperCase(),
        headers: { accept: 'application/json' },
        ...(method === 'post' && { body: new URLSearchParams() }),
      });
      expect([path, status]).toEqual([path, 403]);
      expect(JSON.parse(text)).toMatchObject({
        code: 'insufficient_scope',
        detail: `None of your roles gives ${access}.`,
      });
    }
  });

  test('reads every page', async ({ visitor }) => {
    await visitor.signIn(OLA);
    const pages = operatorRoutes.filter(
      ({ access, method }) => access === 'event-bus:read' && method === 'get',
    );
    for (const { path } of pages) {
      const { status } = await visitor.open(pathOf(path));
      expect([path, [401, 403].includes(status)]).toEqual([path, false]);
    }
  });
});
