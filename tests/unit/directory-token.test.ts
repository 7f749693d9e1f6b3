import { createHmac, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { generateKeyPair, SignJWT } from 'jose';
import type { JWK } from 'jose';
import { describe, expect, onTestFinished, vi } from 'vitest';

import { startDirectory } from '../../dev/stand-ins/directory.ts';
import { tokenOf, verifyToken } from '../../lib/console/access/authenticate.ts';
import { askToSignIn, signOutUrl } from '../../lib/console/access/directory.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { MAPPING, settingsOf, SHAPES } from '../support/directory-tokens.ts';
import { OPERATOR_SECRET, operatorToken } from '../support/operator-token.ts';
import { test as base } from '../support/output-test.ts';

const test = base.extend('directory', async ({ output }, { onCleanup }) => {
  output.text();
  const directory = await startDirectory();
  onCleanup(() => directory.close());
  return directory;
});

const now = () => Math.floor(Date.now() / SECOND);

const invalid = expect.objectContaining({ status: 401, code: 'invalid_token' });

describe('a bearer token of the directory', () => {
  test.for([
    ['Entra ID, for a person', '3f9f6b2e-8c55-4c1a-9a53-6a5d0f2f7c11', 'Kari Nordmann', ['event-bus:read']],
    [
      'Entra ID, for a program',
      '3f9f6b2e-8c55-4c1a-9a53-6a5d0f2f7c11',
      '3f9f6b2e-8c55-4c1a-9a53-6a5d0f2f7c11',
      ['event-bus:read'],
    ],
    ['Keycloak', 'f:1f4b:kari', 'kari', ['event-bus:read', 'event-bus:replay']],
    ['ID-porten', 'YvOVq1nVxqvJTaq-bXk0yw', 'YvOVq1nVxqvJTaq-bXk0yw', ['event-bus:read']],
  ] as const)('is understood as %s sends it', async ([shape, subject, name, scopes], { directory }) => {
    const settings = settingsOf(directory, { OPERATOR_OIDC_ROLES: MAPPING });
    const verified = await verifyToken(await directory.tokenOf(SHAPES[shape]!), settings);
    expect(verified).toMatchObject({ subject, name, scopes: new Set(scopes), isOfDirectory: true });
  });

  test('is taken beside the tokens of the shared secret, and without any', async ({ directory }) => {
    const both = settingsOf(directory);
    const alone = settingsOf(directory, { OPERATOR_JWT_SECRET: '' });
    const token = await directory.tokenOf({ sub: 'kari', roles: ['Innsyn'] });
    expect(await verifyToken(token, both)).toMatchObject({ subject: 'kari' });
    expect(await verifyToken(token, alone)).toMatchObject({ subject: 'kari' });
    expect(await verifyToken(await operatorToken(), both)).toMatchObject({
      subject: 'kari@solvik.example.no',
    });
    await expect(verifyToken(await operatorToken(), alone)).rejects.toEqual(invalid);
  });

  test.for<[string, Readonly<Record<string, unknown>>, string]>([
    ['that has expired', { exp: now() - 60 }, 'exp'],
    ['that is older than a day', { iat: now() - 86_500 }, 'iat'],
    ['that was issued in the future', { iat: now() + 120 }, 'iat'],
    ['without exp', { exp: undefined }, 'exp'],
    ['without iat', { iat: undefined }, 'iat'],
    ['without sub', { sub: undefined }, 'sub'],
    ['whose oid and sub no database takes', { sub: 'kari\0' }, 'sub'],
    ['for another application', { aud: 'another' }, 'aud'],
    ['for nobody', { aud: undefined }, 'aud'],
    ['of Entra ID’s first version', { iss: 'https://sts.windows.net/9122040d/' }, 'iss'],
    ['of an issuer that is no address', { iss: 'directory' }, 'iss'],
    ['of no issuer', { iss: undefined }, 'iss'],
  ])('%s is refused, and the log names the claim', async ([, claims, claim], { directory, output }) => {
    const token = await directory.tokenOf({ sub: 'kari', roles: ['Innsyn'], ...claims });
    await expect(verifyToken(token, settingsOf(directory))).rejects.toEqual(invalid);
    expect(output.text()).toContain(`"claim":"${claim}"`);
    expect(output.text()).not.toContain(token.split('.')[1]);
  });

  test('is refused without a mapped role, with the roles that it has', async ({ directory, output }) => {
    const token = await directory.tokenOf({
      sub: 'per',
      name: 'Per',
      groups: ['/bibliotek'],
      scope: 'openid',
    });
    await expect(verifyToken(token, settingsOf(directory))).rejects.toMatchObject({
      status: 403,
      code: 'no_role',
      detail:
        'Signed in as Per, but none of your roles is mapped. The directory sent /bibliotek, openid. Ask whoever runs Postbud to name one of yours in OPERATOR_OIDC_ROLES.',
    });
    expect(output.text()).toContain('"claims":["groups","scope"]');
  });

  test.for([
    ['a name that begins like a role', { roles: ['Innsyn alle'] }],
    ['a text of two roles, which is one name', { roles: 'Innsyn Drift' }],
    ['a role within another list', { roles: [['Innsyn']] }],
    ['an object', { roles: { Innsyn: true } }],
    ['scopes of ours that are not mapped', { scope: 'event-bus:read event-bus:replay' }],
    ['another claim', { realm_access: { roles: ['Innsyn'] }, wids: ['Innsyn'] }],
  ] as const)('has no role by %s', async ([, claims], { directory }) => {
    const token = await directory.tokenOf({ sub: 'per', ...claims });
    await expect(verifyToken(token, settingsOf(directory))).rejects.toMatchObject({ code: 'no_role' });
  });

  test('is refused unsigned, or signed with what everybody or the other issuer knows', async ({
    directory,
  }) => {
    const settings = settingsOf(directory);
    const claims = { iss: directory.issuer, aud: 'postbud', sub: 'kari', iat: now(), exp: now() + 60 };
    const payload = Buffer.from(JSON.stringify({ ...claims, roles: ['Innsyn'] })).toString('base64url');
    const header = (alg: string) => Buffer.from(JSON.stringify({ alg })).toString('base64url');
    const hmac = (secret: string) => {
      const text = `${header('HS256')}.${payload}`;
      return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
    };
    const modulus = String((JSON.parse(directory.publicKey()) as JWK).n);
    const { privateKey } = await generateKeyPair('RS256');
    const strange = await new SignJWT({ ...claims, roles: ['Innsyn'] })
      .setProtectedHeader({ alg: 'RS256', kid: String((JSON.parse(directory.publicKey()) as JWK).kid) })
      .sign(privateKey);
    const forged = [
      ...['none', 'None', 'NONE'].map((alg) => `${header(alg)}.${payload}.`),
      ...[directory.publicKey(), modulus, OPERATOR_SECRET, ''].map(hmac),
      strange,
    ];
    for (const token of forged) await expect(verifyToken(token, settings)).rejects.toEqual(invalid);
    // And the other way round: the directory signs nothing for the other issuer.
    const token = await directory.tokenOf({
      iss: 'postbud',
      aud: 'postbud-operators',
      sub: 'x',
      scope: 'event-bus:read',
    });
    await expect(verifyToken(token, settings)).rejects.toEqual(invalid);
  });

  test('is found when it is signed with the directory’s next key', async ({ directory }) => {
    const settings = settingsOf(directory);
    const claims = { sub: 'kari', roles: ['Innsyn'] };
    const before = await directory.tokenOf(claims);
    expect(await verifyToken(before, settings)).toMatchObject({ subject: 'kari' });
    await directory.rotateKeys();
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + SECOND });
    onTestFinished(() => void vi.useRealTimers());
    expect(await verifyToken(await directory.tokenOf(claims), settings)).toMatchObject({ subject: 'kari' });
    await expect(verifyToken(before, settings)).rejects.toEqual(invalid);
  });

  test('is answered 503 while the directory is away, and taken when it is back', async ({ directory }) => {
    const settings = settingsOf(directory);
    const token = await directory.tokenOf({ sub: 'kari', roles: ['Innsyn'] });
    directory.behave(502);
    await expect(verifyToken(token, settings)).rejects.toMatchObject({
      status: 503,
      code: 'directory_unavailable',
    });
    directory.behave('right');
    expect(await verifyToken(token, settings)).toMatchObject({ subject: 'kari' });
  });

  test('lasts as a session for an hour after its issue, and as a bearer until it expires', async ({
    directory,
  }) => {
    const settings = settingsOf(directory);
    const old = (ageMs: number) =>
      directory.tokenOf({
        sub: 'kari',
        roles: ['Innsyn'],
        iat: now() - ageMs / SECOND,
        exp: now() + (8 * HOUR) / SECOND,
      });
    expect(await verifyToken(await old(2 * HOUR), settings)).toMatchObject({ subject: 'kari' });
    await expect(verifyToken(await old(2 * HOUR), settings, 'cookie')).rejects.toEqual(invalid);
    const { expiresAtSeconds } = await verifyToken(await old(30 * MINUTE), settings, 'cookie');
    expect(expiresAtSeconds - now()).toBeGreaterThan(1795);
    expect(expiresAtSeconds - now()).toBeLessThanOrEqual(1800);
  });

  test('of another application is the key server’s, where that is the same directory’s', async ({
    directory,
  }) => {
    const settings = settingsOf(directory, {
      OPERATOR_JWT_SECRET: '',
      OPERATOR_JWKS_URL: `${directory.issuer}/keys`,
      OPERATOR_JWT_ISSUER: directory.issuer,
      OPERATOR_JWT_AUDIENCE: 'metrics',
    });
    const scraper = await directory.tokenOf({ sub: 'prometheus', aud: 'metrics', scope: 'event-bus:read' });
    const verified = await verifyToken(scraper, settings);
    expect([verified.subject, verified.isOfDirectory]).toEqual(['prometheus', undefined]);
    const person = await directory.tokenOf({ sub: 'kari', roles: ['Innsyn'] });
    expect(await verifyToken(person, settings)).toMatchObject({ isOfDirectory: true });
  });

  test('is taken with the 200 groups that Entra ID sends at most', async ({ directory }) => {
    const groups = Array.from({ length: 200 }, () => randomUUID());
    const token = await directory.tokenOf({ sub: 'kari', roles: ['Innsyn'], groups });
    const request = new Request('http://localhost:3000', { headers: { authorization: `Bearer ${token}` } });
    expect(tokenOf(request)).toEqual({ token, via: 'bearer' });
  });
});

test('a directory whose document has addresses that nobody may be led to is away', async ({ output }) => {
  const document = (issuer: string) => ({
    issuer,
    jwks_uri: `${issuer}/keys`,
    authorization_endpoint: 'javascript:alert(1)',
    end_session_endpoint: 'javascript:alert(1)',
  });
  const server = createServer((request, response) => {
    response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify(document(`http://${request.headers.host}`)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const settings = {
    issuer: `http://127.0.0.1:${port}`,
    clientId: 'postbud',
    clientSecret: 'a-secret',
    roles: new Map(),
  };
  const asked = askToSignIn(settings, { redirectUri: 'http://localhost:3000', anew: false });
  await expect(asked).rejects.toMatchObject({ status: 503, code: 'directory_unavailable' });
  expect(await signOutUrl(settings, { idToken: 'x', backTo: 'http://localhost:3000' })).toBeNull();
  expect(output.text()).toContain('OAUTH_REQUEST_PROTOCOL_FORBIDDEN');
});
