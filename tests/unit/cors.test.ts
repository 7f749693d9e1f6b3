import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { readConfig } from '../../lib/platform/config.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { Problem } from '../../lib/platform/http/problem.ts';

beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => vi.unstubAllEnvs());

const SITE = 'https://www.site.no';

/** An endpoint of a server whose environment holds these variables. */
function withCors(variables: Record<string, string>, handle = async () => Response.json({ ok: true })) {
  const { cors } = readConfig({ CORS_ORIGINS: '', VERCEL: '1', ...variables });
  return guardedEndpoint({ methods: ['POST'], cors: () => cors, handle });
}

function call(to: Endpoint, origin?: string, method = 'POST'): Promise<Response> {
  const headers = new Headers(origin === undefined ? {} : { origin });
  return to.fetch(new Request('https://postbud.example/api/chat', { method, headers }));
}

const granted = (response: Response) => response.headers.get('access-control-allow-origin');

async function expectForeign(to: Endpoint, origin: string): Promise<void> {
  const refused = await call(to, origin);
  expect([refused.status, granted(refused), refused.headers.get('vary')]).toEqual([403, null, 'Origin']);
  expect(await refused.json()).toMatchObject({ code: 'origin_not_allowed', status: 403 });
  const preflight = await call(to, origin, 'OPTIONS');
  expect([preflight.status, granted(preflight), preflight.headers.get('vary')]).toEqual([
    204,
    null,
    'Origin',
  ]);
}

async function expectAllowed(to: Endpoint, origin: string): Promise<void> {
  for (const [method, status] of [
    ['POST', 200],
    ['OPTIONS', 204],
  ] as const) {
    const response = await call(to, origin, method);
    expect([response.status, granted(response), response.headers.get('vary')]).toEqual([
      status,
      origin,
      'Origin',
    ]);
  }
}

describe('an origin', () => {
  const listed = withCors({ CORS_ORIGINS: `${SITE}, https://site.no,http://intranet:8080` });

  test.each([SITE, 'https://site.no', 'http://intranet:8080'])(
    'a page of the listed origin %s may call',
    async (origin) => {
      await expectAllowed(listed, origin);
    },
  );

  test.each([
    ['null', 'null'],
    ['of another scheme', 'http://www.site.no'],
    ['that only begins like a listed one', 'https://www.site.no.evil.com'],
    ['that only begins like a listed one, without a dot', 'https://www.site.nothing'],
    ['that only ends like a listed one', 'https://evilsite.no'],
    ['that is a subdomain of a listed one', 'https://a.www.site.no'],
    ['that is a parent of a listed one', 'https://no'],
    ['where a dot is another character', 'https://wwwxsite.no'],
    ['of another port', 'https://www.site.no:8443'],
    ['of the default port, written out', 'https://www.site.no:443'],
    ['without the port of a listed one', 'http://intranet'],
    ['in upper case', 'HTTPS://WWW.SITE.NO'],
    ['with one letter in upper case', 'https://www.Site.no'],
    ['with a slash', 'https://www.site.no/'],
    ['with a path', 'https://www.site.no/chat'],
    ['with a user', 'https://www.site.no@evil.com'],
    ['with a dot at the end', 'https://www.site.no.'],
    ['without a scheme', 'www.site.no'],
    ['twice', `${SITE}, ${SITE}`],
    ['with another behind it', `${SITE}, https://evil.com`],
    ['with another behind it, after a space', `${SITE} https://evil.com`],
    ['of a file', 'file://'],
    ['that is empty', ''],
    ['*', '*'],
    ['of this machine', 'http://localhost:3000'],
  ])('a page of an origin %s may not call', async (_, origin) => {
    await expectForeign(listed, origin);
  });
});

describe('a listed origin in another spelling', () => {
  test.each([
    ['https://www.site.no:443', SITE],
    ['HTTPS://WWW.Site.no', SITE],
    ['https://www.site.no/', SITE],
    [' Https://www.site.no:0443/ ', SITE],
    ['http://intranet:80/', 'http://intranet'],
    ['https://bærum.kommune.no', 'https://xn--brum-voa.kommune.no'],
    ['https://BÆRUM.kommune.no/', 'https://xn--brum-voa.kommune.no'],
    ['https://XN--brum-voa.kommune.no', 'https://xn--brum-voa.kommune.no'],
    ['https://*.Preview.bærum.kommune.no:443/', 'https://pr-17.preview.xn--brum-voa.kommune.no'],
    ['http://[2001:DB8:0:0::1]:80', 'http://[2001:db8::1]'],
    ['http://127.1:8080', 'http://127.0.0.1:8080'],
  ])('the entry %s lists the origin that browsers write %s', async (entry, origin) => {
    await expectAllowed(withCors({ CORS_ORIGINS: `https://other.no,${entry}` }), origin);
  });

  test.each([
    ['*', 'a star alone would let every page call'],
    ['null', 'null is the origin of every page that hides its own'],
    ['www.site.no', 'entry 2 begins with neither https:// nor http://'],
    ['localhost:3000', 'entry 2 begins with neither https:// nor http://'],
    ['//www.site.no', 'entry 2 begins with neither https:// nor http://'],
    ['https:www.site.no', 'entry 2 begins with neither https:// nor http://'],
    ['ftp://www.site.no', 'entry 2 begins with ftp://, not with https:// or http://'],
    ['https://', 'entry 2 has no valid host or port'],
    ['https:///www.site.no', 'entry 2 has no valid host or port'],
    ['https://www.site.no:99999', 'entry 2 has no valid host or port'],
    ['https://www.site.no:*', 'entry 2 has no valid host or port'],
    ['https://www.site.no https://site.no', 'entry 2 has no valid host or port'],
    ['https://10.0.*.1', 'entry 2 has no valid host or port'],
    ['https://www.site.no/kontakt', 'entry 2 is longer than an origin. Write https://www.site.no'],
    ['https://www.site.no/?key=1', 'entry 2 is longer than an origin. Write https://www.site.no'],
    ['https://www.site.no#top', 'entry 2 is longer than an origin. Write https://www.site.no'],
    ['https://kari:secret@www.site.no', 'entry 2 is longer than an origin. Write https://www.site.no'],
    [
      'https://*.*.site.no',
      'https://*.*.site.no may have one star, in a label of a to z, digits and hyphens',
    ],
    [
      'https://bærum-*.site.no',
      'https://xn--brum-*-pua.site.no may have one star, in a label of a to z, digits and hyphens',
    ],
    ['https://*.no.', 'https://*.no. may have one star, in a label of a to z, digits and hyphens'],
  ])('the entry %s, which is no origin, is refused', (entry, reason) => {
    expect(() => readConfig({ CORS_ORIGINS: `${SITE},${entry}` }).cors).toThrow(
      expect.objectContaining({
        variable: 'CORS_ORIGINS',
        message: `CORS_ORIGINS must be origins separated by commas, for example https://www.example.no,https://*.preview.example.no: ${reason}`,
      }),
    );
  });
});

describe('a star in a listed origin', () => {
  const preview = withCors({ CORS_ORIGINS: 'https://*.preview.site.no,https://www.*.site.org:8443' });

  test.each([
    'https://a.preview.site.no',
    'https://pr-17.preview.site.no',
    'https://xn--brum-woa.preview.site.no',
    'https://www.pr-17.site.org:8443',
  ])('a star stands for a label: %s may call', async (origin) => {
    await expectAllowed(preview, origin);
  });

  test.each([
    ['two labels', 'https://a.b.preview.site.no'],
    ['no label', 'https://preview.site.no'],
    ['an empty label', 'https://.preview.site.no'],
    ['a port', 'https://evil.com:443.preview.site.no'],
    ['a path', 'https://evil.com/.preview.site.no'],
    ['a query', 'https://evil?.preview.site.no'],
    ['a fragment', 'https://evil#.preview.site.no'],
    ['a user', 'https://evil@.preview.site.no'],
    ['another origin', 'https://evil.com, https://a.preview.site.no'],
    ['upper case', 'https://A.preview.site.no'],
    ['an escape', 'https://%61.preview.site.no'],
    ['a letter of another alphabet', 'https://\u00E6.preview.site.no'],
    ['a port that is not listed', 'https://a.preview.site.no:8443'],
    ['a star', 'https://*.preview.site.no'],
    ['two labels in the middle', 'https://www.a.b.site.org:8443'],
  ])('a star for a label does not stand for %s', async (_, origin) => {
    await expectForeign(preview, origin);
  });
});

describe('a star in a label of a listed origin', () => {
  const preview = withCors({ CORS_ORIGINS: 'https://site-*-team.vercel.app' });

  test.each(['https://site-git-main-team.vercel.app', 'https://site-x-team.vercel.app'])(
    'a star in a label stands for a part of it: %s may call',
    async (origin) => {
      await expectAllowed(preview, origin);
    },
  );

  test.each([
    ['nothing', 'https://site--team.vercel.app'],
    ['a dot', 'https://site-a.b-team.vercel.app'],
    ['another name', 'https://evil-site-x-team.vercel.app'],
    ['another team', 'https://site-x-team-evil.vercel.app'],
  ])('a star in a label does not stand for %s', async (_, origin) => {
    await expectForeign(preview, origin);
  });
});

describe('a star that strangers could stand for', () => {
  test.each([
    'https://*',
    'https://*.no',
    'https://*.com:8443',
    'https://*.co.uk',
    'https://*.kommune.no',
    'https://*.vercel.app',
    'https://*.netlify.app',
    'https://*.github.io',
    'https://*.pages.dev',
    'https://*.azurewebsites.net',
    'https://*.s3.amazonaws.com',
    'https://*.ck',
    'https://*.intranet',
    'https://www.*.org',
    'https://www.*.co.uk',
    'https://site.*.app',
    'https://www.site.*',
    'https://site-*.no',
    'https://*-site.no',
    'https://site-*-team.co.uk',
    'https://site-*.vercel.app',
    'https://www.*.vercel.app',
    'http://10.0.0.*',
  ])('the origin %s, which strangers could have, is refused with an example', (origin) => {
    expect(() => readConfig({ CORS_ORIGINS: `${SITE},${origin}` }).cors).toThrow(
      expect.objectContaining({
        variable: 'CORS_ORIGINS',
        message: expect.stringMatching(
          /^CORS_ORIGINS must have a name of your own behind a star, for example https:\/\/\S+: \S+ lets the pages of strangers call$/,
        ),
      }),
    );
  });

  test.each([
    'https://*.example.no',
    'https://*.preview.example.no',
    'https://*.example.co.uk',
    'https://*.nordvag.kommune.no',
    'https://pr-*.example.no',
    'https://site-*-team.vercel.app',
    'https://*-team.vercel.app',
    'https://deploy-preview-*--site.netlify.app',
    'https://*--site.netlify.app',
    'https://*.site.pages.dev',
    'https://www.*.example.org:8443',
  ])('the origin %s, which has a name of its own behind the star, is accepted', (origin) => {
    expect(readConfig({ CORS_ORIGINS: origin }).cors.origins).toEqual([origin]);
  });

  test('the example of a refused origin is for the same host', () => {
    expect(() => readConfig({ CORS_ORIGINS: 'https://*.vercel.app' }).cors).toThrow(
      'CORS_ORIGINS must have a name of your own behind a star, for example https://site-*-team.vercel.app: https://*.vercel.app lets the pages of strangers call',
    );
  });
});

describe('without CORS_ORIGINS', () => {
  const LOCAL = [
    'http://localhost',
    'http://localhost:3000',
    'https://localhost:65535',
    'http://127.0.0.1:5173',
    'http://[::1]:8080',
  ];

  test.each(LOCAL)('the local server lets pages of %s call', async (origin) => {
    vi.stubEnv('CORS_ORIGINS', undefined);
    const { cors } = readConfig({ VERCEL: '' });
    await expectAllowed(
      guardedEndpoint({ methods: ['POST'], cors: () => cors, handle: async () => new Response() }),
      origin,
    );
  });

  test.each([
    'http://localhost.evil.com',
    'http://evil-localhost',
    'http://localhost:3000.evil.com',
    'http://localhost:',
    'http://a.localhost',
    'http://127.0.0.10',
    'http://127x0x0x1',
    'http://[::1',
    'http://[::2]',
    'ftp://localhost',
    'null',
    SITE,
  ])('the local server lets no page of %s call', async (origin) => {
    vi.stubEnv('CORS_ORIGINS', undefined);
    const { cors } = readConfig({ VERCEL: '' });
    await expectForeign(
      guardedEndpoint({ methods: ['POST'], cors: () => cors, handle: async () => new Response() }),
      origin,
    );
  });

  test.each([...LOCAL, SITE])('a deployment lets no page of %s call', async (origin) => {
    await expectForeign(withCors({}), origin);
  });
});

describe('a caller without an Origin', () => {
  test('a caller without an Origin is let through, and the answer varies by Origin', async () => {
    const response = await call(withCors({ CORS_ORIGINS: SITE }));
    expect([response.status, granted(response), response.headers.get('vary')]).toEqual([200, null, 'Origin']);
  });
});

describe('a preflight', () => {
  test('a preflight is answered 204 with the allowed methods, headers and their time', async () => {
    const handle = vi.fn(async () => new Response());
    const response = await call(withCors({ CORS_ORIGINS: SITE }, handle), SITE, 'OPTIONS');
    expect([response.status, await response.text()]).toEqual([204, '']);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      allow: 'POST, OPTIONS',
      'access-control-allow-origin': SITE,
      'access-control-allow-methods': 'POST, OPTIONS',
      'access-control-allow-headers': 'Content-Type, Idempotency-Key, X-Request-Id',
      'access-control-max-age': '7200',
      vary: 'Origin',
    });
    expect(handle).not.toHaveBeenCalled();
  });

  test.each([
    [
      'content-type,sentry-trace,baggage,traceparent,x-requested-with,cache-control',
      'content-type, sentry-trace, baggage, traceparent, x-requested-with, cache-control',
    ],
    [' X-Datadog-Trace-Id ,, newrelic', 'X-Datadog-Trace-Id, newrelic'],
    ['x:y, x y, æ, "x", x/y, traceparent', 'traceparent'],
    ['', 'Content-Type, Idempotency-Key, X-Request-Id'],
  ])('a preflight that names the headers %j is granted %j', async (named, allowed) => {
    const headers = new Headers({ origin: SITE, 'access-control-request-method': 'POST' });
    headers.set('access-control-request-headers', Buffer.from(named).toString('latin1'));
    const request = new Request('https://postbud.example/api/chat', { method: 'OPTIONS', headers });
    const response = await withCors({ CORS_ORIGINS: SITE }).fetch(request);
    expect(response.headers.get('access-control-allow-headers')).toBe(allowed);
    expect(response.headers.get('access-control-allow-credentials')).toBeNull();
  });
});

describe('every answer to a listed origin', () => {
  const answers = {
    'an answer': [200, async () => Response.json({})],
    'a stream': [200, async () => new Response(new Blob(['data: x\n\n']).stream())],
    'a redirect': [303, async () => Response.redirect('https://www.site.no/takk', 303)],
    'a problem': [
      400,
      async () => {
        throw new Problem('incomplete_body');
      },
    ],
    'an error': [
      500,
      async () => {
        throw new TypeError('x');
      },
    ],
  } as const satisfies Record<string, readonly [number, () => Promise<Response>]>;

  test.each(Object.entries(answers))(
    '%s can be read by a listed origin, with its limits and without credentials',
    async (_, row) => {
      const [status, handle] = row;
      const response = await call(withCors({ CORS_ORIGINS: SITE }, handle), SITE);
      expect([response.status, granted(response), response.headers.get('vary')]).toEqual([
        status,
        SITE,
        'Origin',
      ]);
      expect(response.headers.get('access-control-expose-headers')).toBe(
        'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Idempotent-Replayed',
      );
      expect(response.headers.get('access-control-allow-credentials')).toBeNull();
    },
  );

  test.each(['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH'])(
    'a 405 to %s can be read by a listed origin, and lists OPTIONS',
    async (method) => {
      const response = await call(withCors({ CORS_ORIGINS: SITE }), SITE, method);
      expect([response.status, granted(response), response.headers.get('allow')]).toEqual([
        405,
        SITE,
        'POST, OPTIONS',
      ]);
    },
  );

  test('an answer keeps its own Vary beside Origin', async () => {
    const handle = async () => new Response('', { headers: { vary: 'Accept' } });
    const response = await call(withCors({ CORS_ORIGINS: SITE }, handle), SITE);
    expect(response.headers.get('vary')).toBe('Accept, Origin');
  });
});

describe('an endpoint for any page', () => {
  const open = guardedEndpoint({
    methods: ['GET'],
    cors: () => 'any',
    handle: async () => Response.json({}),
  });

  test.each([SITE, 'null', undefined])(
    'an endpoint for any page answers * to the origin %s',
    async (origin) => {
      for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST']) {
        const response = await call(open, origin, method);
        const { headers } = response;
        expect([
          granted(response),
          headers.get('access-control-allow-credentials'),
          headers.get('vary'),
        ]).toEqual(['*', null, null]);
      }
    },
  );
});

describe('an endpoint that declares no CORS', () => {
  const closed = guardedEndpoint({ methods: ['POST'], handle: async () => Response.json({}) });

  test('an endpoint without CORS has none of its headers, and no OPTIONS', async () => {
    for (const method of ['POST', 'OPTIONS', 'GET']) {
      const response = await call(closed, SITE, method);
      const names = [...response.headers.keys()].filter((name) => /^(access-control-|vary)/.test(name));
      expect([response.status, names]).toEqual([method === 'POST' ? 200 : 405, []]);
    }
  });
});
