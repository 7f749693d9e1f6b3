import { startDirectory } from '../../dev/stand-ins/directory.ts';
import type { DirectoryStandIn } from '../../dev/stand-ins/directory.ts';
import { countBadges } from '../../lib/console/dead-letters/count.ts';
import { HOME } from '../../lib/console/kit/links.ts';
import type { OperatorSettings } from '../../lib/platform/config.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { test as busTest } from './bus-test.ts';
import { settingsOf } from './directory-tokens.ts';
import { operatorFunction } from './operator-function.ts';

/** The directory sends answers to this machine alone. */
const ORIGIN = 'http://localhost:3000';

export const KARI = 'Kari Nordmann, operator';
export const OLA = 'Ola Hansen, reader';
export const PER = 'Per Bibliotek, without a role here';

/** Vitest's `test` with a directory of the test's own, and `visitor`, a browser before a console that has it. */
export const test = busTest
  .extend('directory', async ({}, { onCleanup }) => {
    const directory = await startDirectory();
    onCleanup(() => directory.close());
    return directory;
  })
  .extend('visitor', ({ bus, directory, output }) => {
    output.text();
    return new Visitor(directory, () => bus.db);
  });

interface Opened {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** A browser that keeps cookies and sends what browsers send. */
export class Visitor {
  readonly cookies = new Map<string, string>();
  settings: OperatorSettings;
  readonly #directory: DirectoryStandIn;
  readonly #fetch: (request: Request) => Promise<Response>;

  constructor(directory: DirectoryStandIn, db: () => Database, limiter = new MemoryLimiter()) {
    this.#directory = directory;
    this.settings = settingsOf(directory);
    this.#fetch = operatorFunction({
      settings: () => this.settings,
      db,
      limiter,
      badges: async () => await countBadges(db()),
    }).fetch;
  }

  /** @param site where the request comes from. */
  async open(at: string | URL, init: RequestInit = {}, site = 'same-origin'): Promise<Opened> {
    const headers = new Headers({
      accept: 'text/html',
      'sec-fetch-site': site,
      'sec-fetch-mode': 'navigate',
    });
    headers.set('x-forwarded-for', '192.0.2.7');
    headers.set('cookie', [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; '));
    for (const [name, value] of new Headers(init.headers)) headers.set(name, value);
    const response = await this.#fetch(new Request(new URL(at, ORIGIN), { ...init, headers }));
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(response.headers.get('set-cookie') ?? '') ?? [];
    if (value) this.cookies.set(name, value);
    else this.cookies.delete(name);
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  async send(path: string, fields: Readonly<Record<string, string>> = {}): Promise<Opened> {
    return await this.open(HOME + path, { method: 'POST', body: new URLSearchParams(fields) });
  }

  /** Presses the button, and chooses who to be. @returns where the directory sends the browser back to. */
  async answered(person = KARI, fields: Readonly<Record<string, string>> = {}): Promise<URL> {
    const { text, status } = await this.send('/sign-in/directory', fields);
    const there = leadsTo(text);
    if (there === null) throw new Error(`no page leads to the directory: ${status} ${text}`);
    const chosen = new URL(`/signed-in${there.search}`, this.#directory.issuer);
    chosen.searchParams.set('person', person);
    const { headers } = await fetch(chosen, { redirect: 'manual' });
    return new URL(headers.get('location') ?? '', this.#directory.issuer);
  }

  /** Signs in, as far as the console's answer. */
  async signIn(person = KARI, fields: Readonly<Record<string, string>> = {}): Promise<Opened> {
    return await this.open(await this.answered(person, fields), {}, 'cross-site');
  }
}

/** Where a page leads by itself; null for one that stays. */
export function leadsTo(page: string): URL | null {
  const [, url] = /http-equiv="refresh" content="0;url=([^"]+)"/.exec(page) ?? [];
  return url === undefined ? null : new URL(url.replaceAll('&amp;', '&'));
}
