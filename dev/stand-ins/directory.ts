import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import type { JWTPayload } from 'jose';

import { html } from '../../lib/platform/markup.ts';
import type { Html } from '../../lib/platform/markup.ts';
import { asksForThisMachine, isLocalHost, NOT_LOCAL } from '../local-names.ts';

/** Who can sign in, by what the page calls them, with the claims that the directory sends of them. */
type People = Readonly<Record<string, JWTPayload>>;

/** A word is a mistake of the directory's, a number an HTTP status of all its answers. */
export type DirectoryBehaviour =
  | 'right'
  | 'wrong nonce'
  | 'wrong audience'
  | 'wrong issuer'
  | 'wrong signature'
  | 'expired'
  | 'unsigned'
  | 'shared secret'
  | 'code used twice'
  | 'wrong issuer in the address'
  | 'denied'
  | number;

export interface DirectoryStandIn {
  /** For `OPERATOR_OIDC_ISSUER`. */
  readonly issuer: string;
  /** For the variables of the same names. */
  readonly variables: Readonly<Record<string, string>>;
  readonly behave: (how: DirectoryBehaviour) => void;
  /** Replaces who can sign in. */
  readonly employ: (people: People) => void;
  /** Signs with a new key from now on, and serves that alone. */
  readonly rotateKeys: () => Promise<void>;
  /** A token for the application, as one of its programs gets it. @param claims replace the usual ones. */
  readonly tokenOf: (claims: JWTPayload) => Promise<string>;
  /** The public key, as its key server serves it. */
  readonly publicKey: () => string;
  /** Where it has sent those who signed out. */
  readonly signedOut: readonly string[];
  readonly close: () => Promise<void>;
}

const CLIENT = { id: 'postbud', secret: 'a-secret-of-the-stand-in' };

/** An operator as Keycloak tells of one, a reader as Entra ID does, and one of another department. */
const PEOPLE: People = {
  'Kari Nordmann, operator': {
    sub: 'b81e4c7a-2d96-4f53-a0c4-5e6f17d98b20',
    name: 'Kari Nordmann',
    groups: ['/ansatte', '/drift'],
  },
  'Ola Hansen, reader': {
    sub: 'TPyMX3dZ4qz1SpvWdyTkVw',
    oid: '3f9f6b2e-8c55-4c1a-9a53-6a5d0f2f7c11',
    preferred_username: 'ola.hansen@solvik.example.no',
    roles: ['Innsyn'],
  },
  'Per Bibliotek, without a role here': {
    sub: 'per',
    name: 'Per Bibliotek',
    groups: ['/ansatte', '/bibliotek'],
  },
};

interface Granted {
  readonly claims: JWTPayload;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly nonce: string;
}

/** Starts a local OpenID provider, where a person signs in by choosing who they are. */
export async function startDirectory({
  port = 0,
}: { readonly port?: number } = {}): Promise<DirectoryStandIn> {
  const granted = new Map<string, Granted>();
  const signedOut: string[] = [];
  let people = PEOPLE;
  let behaviour: DirectoryBehaviour = 'right';
  let keys = await (firstKeys ??= newKeys());
  let issuer = '';

  const grant = (query: URLSearchParams): Response => {
    const person = people[query.get('person') ?? ''];
    const answer = answerTo(query);
    if (!person || answer === null) return page(html`<h1>Unknown person</h1>`, 400);
    const code = randomBytes(16).toString('base64url');
    granted.set(code, {
      claims: person,
      redirectUri: query.get('redirect_uri') ?? '',
      challenge: query.get('code_challenge') ?? '',
      nonce: query.get('nonce') ?? '',
    });
    const refused = behaviour === 'denied';
    if (refused) answer.searchParams.set('error', 'access_denied');
    else answer.searchParams.set('code', code);
    answer.searchParams.set(
      'iss',
      behaviour === 'wrong issuer in the address' ? 'http://127.0.0.1:1' : issuer,
    );
    return Response.redirect(answer.href, 303);
  };

  const exchange = async (request: IncomingMessage): Promise<Response> => {
    const form = new URLSearchParams(await text(request));
    if (!isFromClient(request, form)) return Response.json({ error: 'invalid_client' }, { status: 400 });
    const code = form.get('code') ?? '';
    const found = granted.get(code);
    granted.delete(code);
    const isRight =
      found?.redirectUri === form.get('redirect_uri') &&
      found?.challenge === challengeOf(form.get('code_verifier') ?? '') &&
      behaviour !== 'code used twice';
    if (!found || !isRight) return Response.json({ error: 'invalid_grant' }, { status: 400 });
    const idToken = await misbehaving({ ...found.claims, nonce: found.nonce }, behaviour, { keys, issuer });
    return Response.json({
      access_token: 'opaque',
      token_type: 'Bearer',
      expires_in: 300,
      id_token: idToken,
    });
  };

  const answer = async (request: IncomingMessage): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', issuer);
    if (!asksForThisMachine(request)) return Response.json({ error: NOT_LOCAL }, { status: 421 });
    if (typeof behaviour === 'number') return new Response('out of order', { status: behaviour });
    switch (`${request.method} ${pathname}`) {
      case 'GET /.well-known/openid-configuration':
        return Response.json(documentOf(issuer));
      case 'GET /keys':
        return Response.json({ keys: [keys.publicJwk] });
      case 'GET /authorize':
        return choosingPage(searchParams, people);
      case 'GET /signed-in':
        return grant(searchParams);
      case 'POST /token':
        return await exchange(request);
      case 'GET /sign-out':
        return signOut(searchParams, signedOut);
      default:
        return new Response('nothing here', { status: 404 });
    }
  };

  const server = createServer((request, response) => {
    answer(request)
      .then((given) => send(response, given))
      .catch(() => response.writeHead(500).end());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve);
  });
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    issuer,
    variables: {
      OPERATOR_OIDC_ISSUER: issuer,
      OPERATOR_OIDC_CLIENT_ID: CLIENT.id,
      OPERATOR_OIDC_CLIENT_SECRET: CLIENT.secret,
      OPERATOR_OIDC_ROLES:
        '/drift=event-bus:read event-bus:replay event-bus:reveal event-bus:erase,Innsyn=event-bus:read',
    },
    behave: (how) => void (behaviour = how),
    employ: (employed) => void (people = employed),
    rotateKeys: async () => void (keys = await newKeys()),
    tokenOf: (claims) => signed(claims, { keys, issuer }),
    publicKey: () => JSON.stringify(keys.publicJwk),
    signedOut,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Issuing {
  readonly keys: Awaited<ReturnType<typeof newKeys>>;
  readonly issuer: string;
}

/** To make them takes longer than all else. */
let firstKeys: ReturnType<typeof newKeys> | undefined;

async function newKeys() {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
  const kid = randomBytes(8).toString('hex');
  return { privateKey, kid, publicJwk: { ...(await exportJWK(publicKey)), kid, use: 'sig', alg: 'RS256' } };
}

function documentOf(issuer: string): object {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    end_session_endpoint: `${issuer}/sign-out`,
    jwks_uri: `${issuer}/keys`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
  };
}

/** Lets a person choose who they are. */
function choosingPage(query: URLSearchParams, people: People): Response {
  if (answerTo(query) === null)
    return page(html`<h1>This is no request of Postbud on this machine</h1>`, 400);
  const links = Object.keys(people).map((person) => {
    const chosen = new URLSearchParams(query);
    chosen.set('person', person);
    return html`<li><a href="/signed-in?${chosen.toString()}">${person}</a></li>`;
  });
  return page(
    html`<h1>Stand-in directory</h1>
      <p>This plays the organisation’s directory. Who are you?</p>
      <ul>
        ${links}
      </ul>`,
  );
}

/** Where an answer goes: to this machine alone. @returns null for a request that is wrong. */
function answerTo(query: URLSearchParams): URL | null {
  const uri = query.get('redirect_uri') ?? '';
  const isRight =
    query.get('client_id') === CLIENT.id &&
    query.get('response_type') === 'code' &&
    query.get('code_challenge_method') === 'S256' &&
    URL.canParse(uri) &&
    isLocalHost(new URL(uri).host);
  if (!isRight) return null;
  const answer = new URL(uri);
  answer.searchParams.set('state', query.get('state') ?? '');
  return answer;
}

function signOut(query: URLSearchParams, signedOut: string[]): Response {
  const back = query.get('post_logout_redirect_uri') ?? '';
  signedOut.push(back);
  if (URL.canParse(back) && isLocalHost(new URL(back).host)) return Response.redirect(back, 303);
  return page(html`<h1>You are signed out of the stand-in directory</h1>`);
}

function isFromClient({ headers }: IncomingMessage, form: URLSearchParams): boolean {
  const [, basic = ''] = /^Basic (\S+)$/.exec(headers.authorization ?? '') ?? [];
  const [id, secret] = Buffer.from(basic, 'base64').toString().split(':').map(decodeURIComponent);
  return (
    (id || form.get('client_id')) === CLIENT.id && (secret ?? form.get('client_secret')) === CLIENT.secret
  );
}

function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url');
}

const seconds = () => Math.floor(Date.now() / 1000);

async function signed(claims: JWTPayload, { keys, issuer }: Issuing): Promise<string> {
  return await new SignJWT({ iss: issuer, aud: CLIENT.id, iat: seconds(), exp: seconds() + 300, ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: keys.kid })
    .sign(keys.privateKey);
}

/** Signs a token that has the mistake of the behaviour. */
async function misbehaving(
  claims: JWTPayload,
  behaviour: DirectoryBehaviour,
  issuing: Issuing,
): Promise<string> {
  switch (behaviour) {
    case 'wrong nonce':
      return await signed({ ...claims, nonce: 'of-another-sign-in' }, issuing);
    case 'wrong audience':
      return await signed({ ...claims, aud: 'another-application' }, issuing);
    case 'wrong issuer':
      return await signed({ ...claims, iss: 'http://127.0.0.1:1' }, issuing);
    case 'expired':
      return await signed({ ...claims, iat: seconds() - 7200, exp: seconds() - 3600 }, issuing);
    case 'wrong signature': {
      const [, , signature] = (await signed({ sub: 'another' }, issuing)).split('.');
      return (await signed(claims, issuing)).replace(/[^.]+$/, signature!);
    }
    case 'unsigned':
      return (await signed(claims, issuing))
        .replace(/^[^.]+/, encoded({ alg: 'none' }))
        .replace(/[^.]+$/, '');
    case 'shared secret':
      return await new SignJWT({
        iss: issuing.issuer,
        aud: CLIENT.id,
        iat: seconds(),
        exp: seconds() + 300,
        ...claims,
      })
        .setProtectedHeader({ alg: 'HS256' })
        .sign(Buffer.from(JSON.stringify(issuing.keys.publicJwk)));
    default:
      return await signed(claims, issuing);
  }
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

function page(content: Html, status = 200): Response {
  const document = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>Stand-in directory</title>
      </head>
      <body style="font: 16px system-ui; max-width: 34rem; margin: 8vh auto; padding: 0 1rem">
        ${content}
      </body>
    </html>`;
  return new Response(String(document), { status, headers: { 'content-type': 'text/html; charset=utf-8' } });
}

async function send(response: ServerResponse, given: Response): Promise<void> {
  response.writeHead(given.status, Object.fromEntries(given.headers)).end(await given.text());
}
