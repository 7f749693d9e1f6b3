import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import { misspeltVariables } from '../../lib/components/misspelt-variables.ts';
import { subscribersOf } from '../../lib/components/registry.ts';
import {
  providers,
  endpointsWithSharedSecrets,
  readable,
  readConfig,
  wrongVariables,
} from '../../lib/platform/config.ts';
import type { InvalidConfiguration } from '../../lib/platform/config.ts';
import { environmentOf } from '../../lib/platform/environment.ts';
import { logTo } from '../../lib/platform/log.ts';

const OURS =
  /^(DATABASE_|DATA_DIR$|VERCEL$|VERCEL_ENV$|PORT$|DEMO$|CRON_|OPERATOR_|WEBHOOK_|SUBSCRIBER_|PRODUCER_)/;

beforeEach(() => {
  for (const name of Object.keys(process.env)) if (OURS.test(name)) vi.stubEnv(name, undefined);
});
afterEach(() => vi.unstubAllEnvs());

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** What the environment is refused with first, with these variables and no others. */
function refused(variables: Record<string, string>): InvalidConfiguration {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  const [error] = wrongVariables();
  for (const name of Object.keys(variables)) vi.stubEnv(name, undefined);
  if (!error) throw new Error('it was taken');
  return error;
}

describe('with nothing set', () => {
  test('without variables there is an embedded database, port 3000 and the demo', () => {
    const unset = { scheme: 'standard', secrets: [] };
    expect(readConfig()).toMatchObject({
      database: { kind: 'embedded', dataDir: '.data' },
      dataDir: '.data',
      port: 3000,
      demo: true,
      deployed: false,
      environment: 'Local',
      operators: { kind: 'none' },
      webhooks: { cardpayments: unset, walletpayments: unset, identityprovider: unset },
      remoteSubscribers: [],
    });
    expect(readConfig().cronSecret).toBeUndefined();
  });

  test.each([
    ...Object.keys(environmentOf({})),
    ...providers.flatMap((name) => [
      `WEBHOOK_${name.toUpperCase()}_SECRET`,
      `WEBHOOK_${name.toUpperCase()}_SCHEME`,
    ]),
    'SUBSCRIBER_LEDGER_URL',
    'SUBSCRIBER_LEDGER_SECRET',
    'SUBSCRIBER_LEDGER_TOPICS',
    'SUBSCRIBER_LEDGER_BATCH',
    'SUBSCRIBER_LEDGER_OUTAGE',
    'SUBSCRIBER_LEDGER_RATE',
    'SUBSCRIBER_LEDGER_CONCURRENCY',
  ])('the variable %s is unset when it is empty or blank', (variable) => {
    const unset = readConfig();
    expect(readConfig({ [variable]: '' })).toEqual(unset);
    expect(readConfig({ [variable]: ' \t' })).toEqual(unset);
  });
});

describe('a wrong value is refused with its variable and what it must be', () => {
  test.each([
    ['DATABASE_URL', 'mysql://localhost/x', 'must be a URL that starts with postgres://'],
    ['DATABASE_URL', 'localhost:5432', 'must be a URL that starts with postgres://'],
    ['DATABASE_DRIVER', 'mysql', 'must be one of neon, pg'],
    ['PORT', 'http', 'must be a whole number from 0 to 65535'],
    ['PORT', '65536', 'must be a whole number from 0 to 65535'],
    ['PORT', '-1', 'must be a whole number from 0 to 65535'],
    ['PORT', '3000.5', 'must be a whole number from 0 to 65535'],
    ['DEMO', 'no', 'must be one of on, off'],
    ['CRON_SECRET', 'fifteen letters', 'must be at least 16 characters'],
    ['OPERATOR_JWT_SECRET', 'x'.repeat(31), 'must be at least 32 bytes'],
    ['OPERATOR_TOKEN_MAX_AGE', '24', 'must be a whole number and a unit'],
    ['OPERATOR_TOKEN_MAX_AGE', '0h', 'from 1m to 30d'],
    ['OPERATOR_TOKEN_MAX_AGE', '31d', 'from 1m to 30d'],
    ['OPERATOR_JWKS_URL', 'keys.example.no', 'must be a URL that starts with https:// or http://'],
    ['OPERATOR_JWKS_URL', 'file:///keys.json', 'must be a URL that starts with https:// or http://'],
    ['WEBHOOK_CARDPAYMENTS_SCHEME', 'foo', 'must be one of standard, stripe, vipps, criipto, github-style'],
    [
      'WEBHOOK_WALLETPAYMENTS_SCHEME',
      'Vipps',
      'must be one of standard, stripe, vipps, criipto, github-style',
    ],
    [
      'WEBHOOK_IDENTITYPROVIDER_SCHEME',
      'idura',
      'must be one of standard, stripe, vipps, criipto, github-style',
    ],
    ['SUBSCRIBER_LEDGER_URL', 'ledger.example.no', 'must be a URL that starts with https:// or http://'],
    ['SUBSCRIBER_LEDGER_RATE', '600', 'must be a number from 1 to 1000000 and the time'],
    ['SUBSCRIBER_LEDGER_CONCURRENCY', '0', 'must be a whole number from 1 to 1000'],
    ['ALERT_EMAIL', 'vakt', 'must be one e-mail address'],
    ['ALERT_WEBHOOK_URL', 'https://u:p@chat.example.no', 'must not contain a user or a password'],
    ['ALERT_WEBHOOK_SECRET', 'secret', 'must be whsec_ and the base64 of 24 to 64 random bytes'],
    ['ALERT_SLACK_URL', 'hooks.slack.com/services/T0/B0/x', 'must be a URL that starts with https:// or'],
    ['ALERT_SLACK_URL', 'https://u:p@hooks.slack.com', 'must not contain a user or a password'],
    [
      'ALERT_SLACK_URL',
      'https://default0a1b.2c.environment.api.powerplatform.com:443/powerautomate/automations/direct/workflows/3d/triggers/manual/paths/invoke?sig=x',
      'must be an incoming webhook of Slack, not the address of a workflow of Teams, which is for ALERT_TEAMS_URL',
    ],
    [
      'ALERT_SLACK_URL',
      'https://prod-1.westeurope.logic.azure.com/workflows/1',
      'which is for ALERT_TEAMS_URL',
    ],
    ['ALERT_TEAMS_URL', 'https://hooks.slack.com/services/T0/B0/x', 'which is for ALERT_SLACK_URL'],
    ['ALERT_TEAMS_URL', 'https://u@teams.example.no', 'must not contain a user or a password'],
    [
      'ALERT_TEAMS_URL',
      'https://solvik.webhook.office.com/webhookb2/a@b/IncomingWebhook/c/d',
      'must not be the address of an Office 365 connector, which Microsoft has switched off: set ALERT_TEAMS_URL to the address of a workflow',
    ],
    [
      'ALERT_WEBHOOK_URL',
      'https://outlook.office.com/webhook/a@b/IncomingWebhook/c/d',
      'Office 365 connector',
    ],
    [
      'PAGERDUTY_ROUTING_KEY',
      'y_NbAkKc66ryYTWUXYEu',
      'must be the integration key of an integration “Events API v2”',
    ],
    ['PAGERDUTY_BASE_URL', 'https://u:p@events.pagerduty.com', 'must not contain a user or a password'],
    ['HEARTBEAT_URL', 'https://u:p@watch.example.no', 'must not contain a user or a password'],
    ['HEARTBEAT_URL', 'https://:p@watch.example.no', 'must not contain a user or a password'],
  ])('the wrong variable %s=%s is refused with its name and what it must be', (variable, value, should) => {
    const error = refused({ [variable]: value });
    expect(error).toMatchObject({ code: 'invalid_configuration', variable });
    expect(error.message).toMatch(new RegExp(`^${variable} must (?:be|not) `));
    expect(error.message).toContain(should);
  });

  test.each(['postgres://u:kanari#fugl@db.example.no/db', 'postgres://u:p@db.example.no:99999/db'])(
    'DATABASE_URL=%s, which is not a URL, is refused',
    (value) => {
      const error = refused({ DATABASE_URL: value });
      expect(error.variable).toBe('DATABASE_URL');
      expect(error.message).not.toContain('kanari');
    },
  );

  test('a wrong value, which may be a secret, is not repeated in the message', () => {
    const value = 'kanarifugl';
    for (const variable of ['CRON_SECRET', 'OPERATOR_JWT_SECRET', 'DATABASE_URL', 'OPERATOR_JWKS_URL']) {
      expect(refused({ [variable]: value }).message).not.toContain(value);
    }
  });
});

describe('asking for webhooks that never came', () => {
  const stripe = {
    WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe',
    WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: 'rk_live_51Qx2m',
  };
  const vipps = {
    WEBHOOK_WALLETPAYMENTS_SCHEME: 'vipps',
    WEBHOOK_WALLETPAYMENTS_RECONCILE_KEY: '2f4a-client:c+ret/==:0ae1b2:123456',
  };
  const settingsOf = (source: Record<string, string>) => readConfig(source).reconciliations;

  test('is off without a key', () => {
    expect(Object.values(settingsOf({}))).toEqual([undefined, undefined, undefined]);
  });

  test('is done at the address of the provider, or at another one', () => {
    expect(settingsOf(stripe).cardpayments).toEqual({
      api: 'stripe',
      url: 'https://api.stripe.com',
      key: 'rk_live_51Qx2m',
    });
    const WEBHOOK_WALLETPAYMENTS_RECONCILE_URL = 'https://apitest.vipps.no/';
    expect(settingsOf({ ...vipps, WEBHOOK_WALLETPAYMENTS_RECONCILE_URL }).walletpayments).toEqual({
      api: 'vipps',
      url: 'https://apitest.vipps.no',
      clientId: '2f4a-client',
      clientSecret: 'c+ret/==',
      subscriptionKey: '0ae1b2',
      merchantSerialNumber: '123456',
    });
  });

  test.for([
    [
      'cardpayments',
      { ...stripe, WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: 'pk_live_kanarifugl' },
      'KEY must be an API key of Stripe',
    ],
    [
      'cardpayments',
      { ...stripe, WEBHOOK_CARDPAYMENTS_SCHEME: '' },
      'Set WEBHOOK_CARDPAYMENTS_SCHEME=stripe, or remove the key',
    ],
    [
      'cardpayments',
      { ...stripe, WEBHOOK_CARDPAYMENTS_RECONCILE_URL: 'https://u:kanarifugl@api.example.no' },
      'URL must be an address without a user',
    ],
    [
      'cardpayments',
      { WEBHOOK_CARDPAYMENTS_RECONCILE_URL: 'https://api.example.no' },
      'KEY must be set when',
    ],
    [
      'cardpayments',
      { ...stripe, VERCEL: '1', WEBHOOK_CARDPAYMENTS_RECONCILE_URL: 'http://api.example.no' },
      'URL must be a URL that starts with https://',
    ],
    [
      'walletpayments',
      { ...vipps, WEBHOOK_WALLETPAYMENTS_RECONCILE_KEY: 'kanarifugl:kanarifugl' },
      'KEY must be client_id:client_secret:subscription_key:merchant_serial_number',
    ],
    [
      'walletpayments',
      { ...vipps, WEBHOOK_WALLETPAYMENTS_SCHEME: 'stripe' },
      'only webhooks of the scheme vipps can be asked for',
    ],
    [
      'identityprovider',
      { WEBHOOK_IDENTITYPROVIDER_RECONCILE_KEY: 'kanarifugl' },
      'only cardpayments with the scheme stripe and walletpayments with the scheme vipps',
    ],
  ] as const)('of %s is refused as %j says', ([provider, source, should]) => {
    let message = 'accepted';
    readable(
      () => settingsOf(source)[provider],
      (error) => (message = error.message),
    );
    expect(message).toContain(should);
    expect(message).not.toContain('kanarifugl');
    // The endpoint goes on receiving what does come.
    expect(readConfig(source).webhooks[provider]!.secrets).toEqual([]);
  });
});

describe('the database', () => {
  test.each([
    ['postgres://u:p@ep-cool-1.eu-central-1.aws.neon.tech/db', undefined, 'neon'],
    ['postgresql://u:p@ep-cool-1-pooler.eu-central-1.aws.neon.tech/db?sslmode=require', undefined, 'neon'],
    ['postgres://u:p@localhost/db', undefined, 'postgres'],
    ['postgresql://u:p@neon.tech.example.no/db', undefined, 'postgres'],
    ['postgres://u:p@db.example.no/neon.tech', undefined, 'postgres'],
    ['postgres://u:p@localhost/db', 'neon', 'neon'],
    ['postgres://u:p@ep-cool-1.eu-central-1.aws.neon.tech/db', 'pg', 'postgres'],
  ])('the database %s with DATABASE_DRIVER %s is reached by the driver for %s', (url, driver, kind) => {
    const { database } = readConfig({ DATABASE_URL: url, ...(driver && { DATABASE_DRIVER: driver }) });
    expect(database).toEqual({ kind, url });
  });

  test('the embedded database is in DATA_DIR, or where a memory:// or file:// URL says', () => {
    expect(readConfig({ DATA_DIR: '/tmp/elsewhere' })).toMatchObject({
      dataDir: '/tmp/elsewhere',
      database: { kind: 'embedded', dataDir: '/tmp/elsewhere' },
    });
    for (const url of ['memory://', 'file:///tmp/there']) {
      expect(readConfig({ DATABASE_URL: url }).database).toEqual({ kind: 'embedded', dataDir: url });
    }
  });

  test('a deployment without DATABASE_URL has no database', () => {
    expect(readConfig({ VERCEL: '1' })).toMatchObject({ deployed: true, database: { kind: 'none' } });
    expect(readConfig({ VERCEL: '1', DATABASE_URL: 'postgres://h/db' }).database.kind).toBe('postgres');
  });
});

describe('the environment', () => {
  test.each([
    [{}, 'Local'],
    [{ VERCEL_ENV: 'development' }, 'Local'],
    [{ VERCEL: '1' }, 'Production'],
    [{ VERCEL: '1', VERCEL_ENV: 'development' }, 'Local'],
    [{ VERCEL: '1', VERCEL_ENV: 'production' }, 'Production'],
    [{ VERCEL: '1', VERCEL_ENV: 'preview' }, 'Preview'],
    [{ VERCEL_ENV: 'preview' }, 'Preview'],
    [{ VERCEL_ENV: 'production' }, 'Production'],
  ])('the environment of %j is called %s', (variables, name) => {
    expect(readConfig(variables).environment).toBe(name);
  });
});

describe('webhooks', () => {
  test('a webhook provider may have several secrets with white space between them', () => {
    const { webhooks } = readConfig({
      WEBHOOK_CARDPAYMENTS_SECRET: ' new-secret  old-secret\n',
      WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe',
    });
    expect(webhooks.cardpayments).toEqual({ scheme: 'stripe', secrets: ['new-secret', 'old-secret'] });
  });

  test.each([
    ['https://hooks.example.no/vipps', {}, 'https://hooks.example.no/vipps'],
    ['https://hooks.example.no/', {}, 'https://hooks.example.no/'],
    ['http://localhost:3000/vipps/', {}, 'http://localhost:3000/vipps/'],
    ['http://hooks.example.no/vipps', { VERCEL: '1' }, 'must be a URL that starts with https://'],
    ['https://hooks.example.no', {}, 'must be the whole address that is registered at the provider'],
    ['https://hooks.example.no/vipps?a=1', {}, 'must be the whole address'],
    ['https://u:p@hooks.example.no/vipps', {}, 'must be the whole address'],
    ['hooks.example.no/vipps', {}, 'must be a URL that starts with https:// or http://'],
  ])('WEBHOOK_WALLETPAYMENTS_URL=%s with %j is read as %j, or refused', (url, environment, read) => {
    const source = { WEBHOOK_WALLETPAYMENTS_URL: url, ...environment };
    const said: string[] = [];
    const own = readable(
      () => readConfig(source).webhooks['walletpayments'],
      (error) => said.push(error.message),
    );
    expect(own?.url ?? said.join()).toContain(read);
  });

  test('only the scheme github-style has a header of any name', () => {
    const WEBHOOK_IDENTITYPROVIDER_SIGNATURE_HEADER = 'X-Signature';
    const settingsOf = (scheme: string, name = WEBHOOK_IDENTITYPROVIDER_SIGNATURE_HEADER) =>
      readConfig({
        WEBHOOK_IDENTITYPROVIDER_SCHEME: scheme,
        WEBHOOK_IDENTITYPROVIDER_SIGNATURE_HEADER: name,
      }).webhooks['identityprovider'];
    expect(settingsOf('github-style')).toMatchObject({ signatureHeader: 'x-signature' });
    expect(() => settingsOf('stripe')).toThrow('Set WEBHOOK_IDENTITYPROVIDER_SCHEME=github-style');
    expect(() => settingsOf('github-style', 'x y')).toThrow('must be the name of a header');
  });

  test('two accounts of a provider are two endpoints, each with variables of its own', () => {
    const { webhooks, reconciliations } = readConfig({
      WEBHOOK_CARDPAYMENTS_SECRET: 'secret-of-oslo',
      WEBHOOK_CARDPAYMENTS_2_SECRET: 'secret-of-bergen',
      WEBHOOK_CARDPAYMENTS_2_SCHEME: 'stripe',
      WEBHOOK_CARDPAYMENTS_2_RECONCILE_KEY: 'rk_live_bergen',
      WEBHOOK_WALLETPAYMENTS_12_SCHEME: 'vipps',
      WEBHOOK_WALLETPAYMENTS_13_SECRET: ' ',
    });
    expect(Object.keys(webhooks)).toEqual([
      'cardpayments',
      'cardpayments_2',
      'walletpayments',
      'walletpayments_12',
      'identityprovider',
    ]);
    expect(webhooks['cardpayments']).toEqual({ scheme: 'standard', secrets: ['secret-of-oslo'] });
    expect(webhooks['cardpayments_2']).toEqual({ scheme: 'stripe', secrets: ['secret-of-bergen'] });
    expect(reconciliations['cardpayments']).toBeUndefined();
    expect(reconciliations['cardpayments_2']).toMatchObject({ key: 'rk_live_bergen' });
  });

  test('two endpoints that share a secret and a scheme are found', () => {
    const shared = (environment: Record<string, string>) =>
      endpointsWithSharedSecrets(readConfig(environment).webhooks);
    const both = {
      WEBHOOK_CARDPAYMENTS_SECRET: 'first-secret shared-secret',
      WEBHOOK_IDENTITYPROVIDER_SECRET: 'shared-secret',
    };
    expect(shared(both)).toEqual(['cardpayments', 'identityprovider']);
    expect(shared({ ...both, WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe' })).toEqual([]);
    expect(shared({ WEBHOOK_CARDPAYMENTS_SECRET: 'same-secret same-secret' })).toEqual([]);
  });
});

describe('operators', () => {
  const jwks = {
    OPERATOR_JWKS_URL: 'https://keys.example.no/jwks.json',
    OPERATOR_JWT_ISSUER: 'https://keys.example.no',
    OPERATOR_JWT_AUDIENCE: 'postbud',
  };

  test('operators with a shared secret have our own issuer and audience', () => {
    expect(readConfig({ OPERATOR_JWT_SECRET: 'x'.repeat(32) }).operators).toEqual({
      kind: 'secret',
      issuer: 'postbud',
      audience: 'postbud-operators',
      maxAgeSeconds: 86_400,
      secret: Uint8Array.from(Buffer.from('x'.repeat(32))),
    });
  });

  test('the length of the operators’ secret is counted in bytes', () => {
    expect(readConfig({ OPERATOR_JWT_SECRET: 'ø'.repeat(16) }).operators.kind).toBe('secret');
  });

  test('operators with a key server need its issuer and audience', () => {
    expect(readConfig(jwks).operators).toEqual({
      kind: 'jwks',
      url: jwks.OPERATOR_JWKS_URL,
      issuer: jwks.OPERATOR_JWT_ISSUER,
      audience: jwks.OPERATOR_JWT_AUDIENCE,
      maxAgeSeconds: 86_400,
    });
    for (const variable of ['OPERATOR_JWT_ISSUER', 'OPERATOR_JWT_AUDIENCE']) {
      const error = refused({ ...jwks, [variable]: '' });
      expect(error.variable).toBe(variable);
      expect(error.message).toContain(`${variable} must be set when OPERATOR_JWKS_URL is`);
    }
  });

  test('operators have a secret or a key server, not both', () => {
    const error = refused({ ...jwks, OPERATOR_JWT_SECRET: 'x'.repeat(32) });
    expect(error.message).toBe('OPERATOR_JWKS_URL must not be set when OPERATOR_JWT_SECRET is');
  });

  const directory = {
    OPERATOR_OIDC_ISSUER: 'https://login.example.no/realms/kommune',
    OPERATOR_OIDC_CLIENT_ID: 'postbud',
    OPERATOR_OIDC_CLIENT_SECRET: 'a-secret',
    OPERATOR_OIDC_ROLES: 'Drift=event-bus:read',
  };

  test('operators have a directory alone, or beside a secret or a key server', () => {
    const expected = {
      issuer: 'https://login.example.no/realms/kommune',
      clientId: 'postbud',
      clientSecret: 'a-secret',
      roles: new Map([['Drift', ['event-bus:read']]]),
    };
    for (const [kind, others] of [
      ['none', {}],
      ['secret', { OPERATOR_JWT_SECRET: 'x'.repeat(32) }],
      ['jwks', jwks],
    ] as const)
      expect(readConfig({ ...directory, ...others }).operators).toMatchObject({ kind, directory: expected });
  });

  test.each(Object.keys(directory))('a directory without %s is refused', (variable) => {
    const error = refused({ ...directory, [variable]: '' });
    expect(error.variable).toBe(variable);
    expect(error.message).toMatch(/ must be set when OPERATOR_OIDC_(ISSUER|CLIENT_ID) is$/);
  });

  test('the roles of a directory have spaces, slashes, colons, ids and equals signs in their names', () => {
    const roles = [
      '/drift/vakt=event-bus:read event-bus:replay',
      ' Vakt og drift = event-bus:read  event-bus:reveal ',
      'solvik:bus.read=event-bus:read',
      '7d1c4f0a-9a53-4b6e-8c55-3f9f6b2e1c11=event-bus:erase',
      'CN=Drift=event-bus:read',
    ].join(',');
    expect(readConfig({ ...directory, OPERATOR_OIDC_ROLES: roles }).operators.directory?.roles).toEqual(
      new Map([
        ['/drift/vakt', ['event-bus:read', 'event-bus:replay']],
        ['Vakt og drift', ['event-bus:read', 'event-bus:reveal']],
        ['solvik:bus.read', ['event-bus:read']],
        ['7d1c4f0a-9a53-4b6e-8c55-3f9f6b2e1c11', ['event-bus:erase']],
        ['CN=Drift', ['event-bus:read']],
      ]),
    );
  });

  const ID = '9122040d-6c67-4c5b-b112-36a304b66dad';

  test.each([
    ['OPERATOR_OIDC_ISSUER', 'login.example.no', 'must be the issuer of the directory, for example https://'],
    ['OPERATOR_OIDC_ISSUER', 'http://login.example.no', 'must be a URL that starts with https://; http://'],
    [
      'OPERATOR_OIDC_ISSUER',
      'http://localhost.example.no',
      'must be a URL that starts with https://; http://',
    ],
    ['OPERATOR_OIDC_ISSUER', 'https://kari@login.example.no', 'must not contain a user'],
    ['OPERATOR_OIDC_ISSUER', 'https://login.example.no/?realm=x', 'must be a URL without ? and #'],
    [
      'OPERATOR_OIDC_ISSUER',
      'https://login.example.no/.well-known/openid-configuration',
      'must end before /.well-known/openid-configuration',
    ],
    ...['common/v2.0', 'organizations/v2.0', '{tenantid}/v2.0', 'solvik.example.no/v2.0', ID].map(
      (path): [string, string, string] => [
        'OPERATOR_OIDC_ISSUER',
        `https://login.microsoftonline.com/${path}`,
        'must name your tenant by its id, https://login.microsoftonline.com/<tenant id>/v2.0',
      ],
    ),
    [
      'OPERATOR_OIDC_ISSUER',
      `https://login.microsoftonline.com/${ID}/v2.0/`,
      'must end with v2.0, without a slash after it: Entra ID names itself so',
    ],
    [
      'OPERATOR_OIDC_ISSUER',
      `https://login.microsoftonline.com/${ID.toUpperCase()}/v2.0`,
      'must be in small letters, the tenant id too: Entra ID names itself so',
    ],
    ['OPERATOR_OIDC_ROLES', 'Drift', 'entry 1 has no ='],
    ['OPERATOR_OIDC_ROLES', 'Drift=event-bus:read,', 'entry 2 has no ='],
    ['OPERATOR_OIDC_ROLES', '=event-bus:read', 'entry 1 has no role before its ='],
    ['OPERATOR_OIDC_ROLES', 'Drift=', 'entry 1 has no scope after its ='],
    [
      'OPERATOR_OIDC_ROLES',
      'Innsyn=event-bus:read,Drift=event-bus:replya',
      'entry 2 has an unknown scope; did you mean event-bus:replay?',
    ],
    [
      'OPERATOR_OIDC_ROLES',
      'Drift=everything',
      'entry 1 has an unknown scope; the scopes are event-bus:read,',
    ],
    ['OPERATOR_OIDC_ROLES', 'A=event-bus:read,A=event-bus:erase', 'entry 2 names a role for the second time'],
    ['OPERATOR_OIDC_ROLES', 'Drift=event-bus:replay', 'no role has event-bus:read'],
    ...[';', ' ', '\n'].map((separator) => [
      'OPERATOR_OIDC_ROLES',
      `Innsyn=event-bus:read${separator}Drift=event-bus:read`,
      'entry 1 has two entries; a comma ends one',
    ]),
  ])('a directory with %s=%s is refused', (variable, value, must) => {
    const error = refused({ ...directory, [variable]: value });
    expect(error.variable).toBe(variable);
    expect(error.message).toContain(must);
  });

  test.each(['http://localhost:8080/realms/x', 'http://127.0.0.1:9000', 'http://[::1]:9000'])(
    'a directory on this machine may do without HTTPS: %s',
    (issuer) => {
      const { operators } = readConfig({ ...directory, OPERATOR_OIDC_ISSUER: issuer });
      expect(operators.directory?.issuer).toBe(issuer);
    },
  );
});

describe('remote subscribers', () => {
  const ledgerElsewhere = {
    SUBSCRIBER_LEDGER_URL: 'https://ledger.example.no/events',
    SUBSCRIBER_LEDGER_SECRET: SECRET,
  };

  test('a remote subscriber has a name, a URL and a secret', () => {
    expect(
      readConfig({
        SUBSCRIBER_LEDGER_URL: 'https://ledger.example.no/events',
        SUBSCRIBER_LEDGER_SECRET: SECRET,
        SUBSCRIBER_ACCOUNTING_URL: 'http://localhost:4000/',
        SUBSCRIBER_ACCOUNTING_SECRET: SECRET,
      }).remoteSubscribers,
    ).toEqual([
      { name: 'ledger', url: 'https://ledger.example.no/events', secret: SECRET },
      { name: 'accounting', url: 'http://localhost:4000/', secret: SECRET },
    ]);
  });

  test.each([
    ['on', true],
    ['off', false],
    [' ', undefined],
  ])('a remote subscriber with _BATCH=%j takes batches: %s', (value, isBatch) => {
    const [ledger] = readConfig({
      SUBSCRIBER_LEDGER_URL: 'https://ledger.example.no/events',
      SUBSCRIBER_LEDGER_SECRET: SECRET,
      SUBSCRIBER_LEDGER_BATCH: value,
    }).remoteSubscribers;
    expect(ledger!.isBatch).toBe(isBatch);
  });

  test.each(['yes', 'On', '100'])('a remote subscriber with _BATCH=%s is refused', (value) => {
    const error = refused({
      SUBSCRIBER_LEDGER_URL: 'https://ledger.example.no/events',
      SUBSCRIBER_LEDGER_SECRET: SECRET,
      SUBSCRIBER_LEDGER_BATCH: value,
    });
    expect(error.message).toBe('SUBSCRIBER_LEDGER_BATCH must be one of on, off');
  });

  test.each([
    ['off', 'off'],
    ['wait', 'wait'],
    [' ', undefined],
  ])('a remote subscriber has _OUTAGE=%j', (value, outage) => {
    const [ledger] = readConfig({
      ...ledgerElsewhere,
      SUBSCRIBER_LEDGER_OUTAGE: value,
    }).remoteSubscribers;
    expect(ledger!.outage).toBe(outage);
  });

  test.each(['on', 'no', 'Off'])('a remote subscriber with _OUTAGE=%s is refused', (value) => {
    const error = refused({ ...ledgerElsewhere, SUBSCRIBER_LEDGER_OUTAGE: value });
    expect(error.message).toBe('SUBSCRIBER_LEDGER_OUTAGE must be one of wait, off');
  });

  test.each([
    ['booking.approved booking.cancelled'],
    ['booking.approved,booking.cancelled'],
    [' booking.approved ,\n\tbooking.cancelled, '],
    ['booking.approved booking.approved, booking.cancelled booking.approved'],
  ])(
    'the topics of a remote subscriber are separated by spaces or commas, and each counts once: %j',
    (value) => {
      const [payments] = readConfig({ SUBSCRIBER_PAYMENTS_TOPICS: value }).remoteSubscribers;
      expect(payments!.topics).toEqual(['booking.approved', 'booking.cancelled']);
    },
  );

  test('a remote subscriber with an empty list of topics counts as one without', () => {
    const variables = { ...ledgerElsewhere, SUBSCRIBER_LEDGER_TOPICS: ' ' };
    expect(readConfig(variables).remoteSubscribers[0]!.topics).toBeUndefined();
    expect(readConfig({ SUBSCRIBER_LEDGER_TOPICS: ' ' }).remoteSubscribers).toEqual([]);
  });

  test('a list of topics without a topic, and one without an address, are refused', () => {
    expect(refused({ ...ledgerElsewhere, SUBSCRIBER_LEDGER_TOPICS: ' , ' }).message).toBe(
      'SUBSCRIBER_LEDGER_TOPICS must name topics, separated by spaces or commas, for example booking.approved booking.cancelled',
    );
    expect(
      refused({ ...ledgerElsewhere, SUBSCRIBER_LEDGER_URL: '', SUBSCRIBER_LEDGER_TOPICS: 'payment.captured' })
        .message,
    ).toBe(
      'SUBSCRIBER_LEDGER_URL must be set when SUBSCRIBER_LEDGER_TOPICS is. If nothing is to be sent elsewhere, remove SUBSCRIBER_LEDGER_TOPICS',
    );
  });

  test.each([
    ['none', undefined],
    ['an empty one', ''],
    ['one without its prefix', SECRET.slice(6)],
    ['one of fewer than 24 bytes', `whsec_${Buffer.alloc(23).toString('base64')}`],
    ['one that is not base64', `whsec_${'å'.repeat(32)}`],
  ])('a remote subscriber with the secret %s is refused', (_, secret) => {
    const error = refused({
      SUBSCRIBER_LEDGER_URL: 'https://ledger.example.no/events',
      ...(secret !== undefined && { SUBSCRIBER_LEDGER_SECRET: secret }),
    });
    expect(error.variable).toBe('SUBSCRIBER_LEDGER_SECRET');
    expect(error.message).toContain('must be whsec_ and the base64 of 24 to 64 random bytes');
  });

  test('an address of an unknown component attaches nothing, and a wrong one waits and says why', () => {
    const lines: object[] = [];
    logTo((line) => lines.push(line));
    const { remoteSubscribers } = readConfig({
      SUBSCRIBER_LEGDER_URL: 'https://ledger.example.no/events',
      SUBSCRIBER_LEGDER_SECRET: SECRET,
      SUBSCRIBER_AUDIT_URL: 'audit.example.no',
      SUBSCRIBER_AUDIT_SECRET: SECRET,
      SUBSCRIBER_AUDIT_TOPICS: topicsOf('audit').join(' '),
      SUBSCRIBER_INTELLIGENCE_URL: 'https://intelligence.example.no/events',
      SUBSCRIBER_INTELLIGENCE_SECRET: SECRET,
    });
    const attached = subscribersOf({ remoteSubscribers, database: { kind: 'none' } });
    // The audit trail of this process must not take what was meant for the one elsewhere.
    expect(attached.map(({ name }) => name)).toEqual([
      'identity',
      'inquiries',
      'notifications',
      'payments',
      'intelligence',
    ]);
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'error',
        subscriber: 'audit',
        variable: 'SUBSCRIBER_AUDIT_URL',
      }),
    ]);
  });

  test('deliveries to notifications wait while a variable of the mail is wrong', () => {
    logTo(() => undefined);
    const names = (variables: Record<string, string>) =>
      subscribersOf(readConfig({ VERCEL: '1', ...variables })).map(({ name }) => name);
    const mail = { SENDGRID_API_KEY: 'SG.x', FROM_EMAIL: 'post@example.no', ADMIN_EMAIL: 'post@example.no' };
    expect(names({})).toContain('notifications');
    expect(names(mail)).toContain('notifications');
    expect(names({ ...mail, FROM_EMAIL: 'nobody' })).toEqual(['audit', 'identity', 'payments']);
  });
});

describe('a misspelt variable', () => {
  test.each([
    ['SUBSCRIBER_LEDGER_TOPIC', 'SUBSCRIBER_LEDGER_TOPICS'],
    ['SUBSCRIBER_LEDGER_CONCURENCY', 'SUBSCRIBER_LEDGER_CONCURRENCY'],
    ['SUBSCRIBER_LEDGER_RATES', 'SUBSCRIBER_LEDGER_RATE'],
    ['SUBSCRIBER_LEGER_OUTAGE', 'SUBSCRIBER_LEDGER_OUTAGE'],
    ['SUBSCRIBER_PAYMENTZ_TOPICS', 'SUBSCRIBER_PAYMENTS_TOPICS'],
    ['SUBSCRIBER_LEDGER_2_URL', 'SUBSCRIBER_LEDGER_URL'],
    ['SUBSCRIBER_ledger_URL', 'SUBSCRIBER_LEDGER_URL'],
    ['PRODUCER_BOKINGS_SECRET', 'PRODUCER_BOOKINGS_SECRET'],
    ['PRODUCER_BOOKINGS_SECRETS', 'PRODUCER_BOOKINGS_SECRET'],
    ['WEBHOOK_CARD_PAYMENTS_RECONCILE_KEY', 'WEBHOOK_CARDPAYMENTS_RECONCILE_KEY'],
    ['WEBHOOK_CARDPAYMENTS_SHEME', 'WEBHOOK_CARDPAYMENTS_SCHEME'],
    ['WEBHOOK_CARDPAYMENTS_2_SECRTE', 'WEBHOOK_CARDPAYMENTS_2_SECRET'],
    ['WEBHOOK_CARDPAYMENTS_02_SECRET', 'WEBHOOK_CARDPAYMENTS_SECRET'],
    ['WEBHOOK_CARDPAYMENTS_1_SECRET', 'WEBHOOK_CARDPAYMENTS_SECRET'],
    ['WEBHOOK_CARDPAYMENTS__SECRET', 'WEBHOOK_CARDPAYMENTS_SECRET'],
  ])('%s is reported with the nearest right one, %s', (variable, meant) => {
    const { setVariables } = readConfig({ [variable]: SECRET, [meant]: SECRET });
    const [error, ...others] = misspeltVariables(setVariables);
    expect(error!.message).toContain(
      `${variable} is not a variable of Postbud (did you mean ${meant}?). Expected `,
    );
    expect(others).toEqual([]);
  });

  test('that is near to none is reported with the parts and the names that there are', () => {
    const { setVariables } = readConfig({ WEBHOOK_URL: 'https://chat.example.no', SUBSCRIBER_X_RATE: ' ' });
    expect(misspeltVariables(setVariables).map(({ message }) => message)).toEqual([
      'WEBHOOK_URL is not a variable of Postbud. Expected WEBHOOK_<NAME>_ and one of SECRET, SCHEME, ACCOUNT, SIGNATURE_HEADER, RECONCILE_KEY, RECONCILE_URL, URL; <NAME> is one of CARDPAYMENTS, WALLETPAYMENTS, IDENTITYPROVIDER, with _2 to _99 for further accounts, such as CARDPAYMENTS_2',
    ]);
  });
});

describe('alerts', () => {
  const mail = { SENDGRID_API_KEY: 'SG.x', FROM_EMAIL: 'post@example.no' };

  test('alerts by mail need a mail key and a sender, and no administrator', () => {
    const { alerts } = readConfig({ ...mail, ALERT_EMAIL: 'vakt@example.no' });
    expect(alerts.mail).toMatchObject({ admin: 'vakt@example.no', from: 'post@example.no' });
    expect(readConfig(mail).alerts.mail).toBeUndefined();
    expect(refused({ VERCEL: '1', ALERT_EMAIL: 'vakt@example.no' }).message).toBe(
      'ALERT_EMAIL must be set together with SENDGRID_API_KEY and FROM_EMAIL',
    );
  });

  test('a chat may be at ALERT_WEBHOOK_URL too, where it reads the text', () => {
    for (const url of [
      'https://hooks.slack.com/services/T0/B0/x',
      'https://prod-1.x.logic.azure.com/workflows/1',
    ])
      expect(readConfig({ ALERT_WEBHOOK_URL: url }).alerts.webhook).toEqual({ url, secret: undefined });
  });

  test('alerts by PagerDuty go to the region of its base URL, by default that of the United States', () => {
    const routingKey = 'r3FPuDvNOTEDyQYCc7trBkymIFcy2NkE';
    const inRegion = (url?: string) =>
      readConfig({ PAGERDUTY_ROUTING_KEY: ` ${routingKey} `, ...(url && { PAGERDUTY_BASE_URL: url }) }).alerts
        .pagerDuty;
    expect(inRegion()).toEqual({ routingKey, url: 'https://events.pagerduty.com' });
    expect(inRegion('https://events.eu.pagerduty.com')).toMatchObject({
      url: 'https://events.eu.pagerduty.com',
    });
    expect(
      readConfig({ PAGERDUTY_BASE_URL: 'https://events.eu.pagerduty.com' }).alerts.pagerDuty,
    ).toBeUndefined();
  });

  test('links of alerts lead to PUBLIC_URL, or to the host that Vercel gives production', () => {
    const vercel = { VERCEL_PROJECT_PRODUCTION_URL: 'bus.example.no' };
    const urlWith = (variables: Record<string, string>) => readConfig(variables).alerts.publicUrl;
    expect(urlWith({ ...vercel, VERCEL_ENV: 'production' })).toBe('https://bus.example.no');
    expect(urlWith({ ...vercel, VERCEL_ENV: 'preview' })).toBeUndefined();
    expect(urlWith({ ...vercel, PUBLIC_URL: 'https://other.example.no/' })).toBe('https://other.example.no');
  });
});

describe('in a deployment', () => {
  const SERVICES = [
    'ANTHROPIC_BASE_URL',
    'SENDGRID_BASE_URL',
    'TURNSTILE_BASE_URL',
    'UPSTASH_REDIS_REST_URL',
    'OPERATOR_JWKS_URL',
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    'ALERT_WEBHOOK_URL',
    'ALERT_SLACK_URL',
    'ALERT_TEAMS_URL',
    'PAGERDUTY_BASE_URL',
    'HEARTBEAT_URL',
    'PUBLIC_URL',
    'SUBSCRIBER_LEDGER_URL',
  ];
  /** What goes with them. */
  const complete = {
    UPSTASH_REDIS_REST_TOKEN: 'x',
    UPSTASH_REDIS_REST_URL: 'https://redis.example.no',
    OPERATOR_JWT_ISSUER: 'http://an.issuer.is.a.name.and.nobody.calls.it',
    OPERATOR_JWT_AUDIENCE: 'x',
    SUBSCRIBER_LEDGER_SECRET: SECRET,
  };
  const wrong = (variables: Record<string, string>) => {
    for (const [name, value] of Object.entries({ ...complete, ...variables })) vi.stubEnv(name, value);
    return wrongVariables().map(({ message }) => message);
  };

  test.each(SERVICES)('the URL %s begins with https:// in a deployment', (variable) => {
    for (const url of ['http://service.example.no', 'HTTP://service.example.no', 'http://127.0.0.1:1']) {
      expect(wrong({ VERCEL: '1', [variable]: url })).toEqual([
        `${variable} must be a URL that starts with https:// in a deployment`,
      ]);
      expect(wrong({ VERCEL: '', [variable]: url })).toEqual([]);
    }
    expect(wrong({ VERCEL: '1', [variable]: 'https://service.example.no' })).toEqual([]);
  });

  test('every variable that ends in URL or ENDPOINT needs https:// in a deployment', () => {
    const names = Object.keys(environmentOf({})).filter((name) => /_(URL|ENDPOINT)$/.test(name));
    // Vercel's has no scheme.
    const others = ['DATABASE_URL', 'VERCEL_PROJECT_PRODUCTION_URL', 'VERCEL_URL'];
    expect(names.toSorted()).toEqual([...SERVICES.slice(0, -1), ...others].toSorted());
  });

  test.each(['memory://', 'file:///tmp/there'])('the database of a deployment is not %s', (url) => {
    expect(wrong({ VERCEL: '1', DATABASE_URL: url })).toEqual([
      expect.stringMatching(/^DATABASE_URL must be the URL of a Postgres server in a deployment/),
    ]);
    expect(wrong({ VERCEL: '', DATABASE_URL: url })).toEqual([]);
  });
});

test('all wrong variables are found at once, each once', () => {
  const variables = {
    PORT: 'http',
    FROM_EMAIL: 'nobody',
    CC_EMAIL: 'nobody',
    CORS_ORIGINS: '*',
    UPSTASH_REDIS_REST_URL: 'https://redis.example.no',
    OPERATOR_TOKEN_MAX_AGE: 'long',
    SUBSCRIBER_LEDGER_URL: 'nowhere',
    SUBSCRIBER_LEDGER_BATCH: 'yes',
    SUBSCRIBER_LEDGER_TOPICS: ',',
    SUBSCRIBER_LEDGER_OUTAGE: 'on',
    WEBHOOK_WALLETPAYMENTS_SCHEME: 'foo',
  };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  const { UPSTASH_REDIS_REST_URL: _, ...wrong } = variables;
  expect(
    wrongVariables()
      .map(({ variable }) => variable)
      .toSorted(),
  ).toEqual([...Object.keys(wrong), 'SUBSCRIBER_LEDGER_SECRET', 'UPSTASH_REDIS_REST_TOKEN'].toSorted());
});
