import type { z } from 'zod';

import type { Scope } from '../lib/http/openapi/operation.ts';
import { SECOND } from '../lib/time.ts';
import { problem } from './answers.ts';
import { EXIT, Failure } from './failure.ts';
import { noPostbud, refusal, unreachable } from './refusals.ts';
import type { Refused } from './refusals.ts';
import type { Settings } from './settings.ts';
import { printable } from './text.ts';

/** What the server answered. */
interface Answered<View> {
  /** As it came. */
  readonly json: unknown;
  /** As it may be shown. */
  readonly view: View;
}

interface Asked<View> {
  readonly path: string;
  readonly answer: z.ZodType<View>;
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  /** Sent as JSON, with POST. */
  readonly body?: unknown;
  /** What the command line calls the fields whose names are not its options’. */
  readonly named?: Readonly<Record<string, string>>;
  /** What the token must allow; of the cron, whose secret it is, `cron`. */
  readonly scope?: Scope | 'cron';
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The bus, as an operator reaches it. */
export interface Bus {
  readonly url: URL;
  /** @throws Failure with what to do about it, whatever goes wrong. */
  readonly ask: <View>(asked: Asked<View>) => Promise<Answered<View>>;
}

/** More than the functions have. */
const TIMEOUT_MS = 35 * SECOND;

export function busAt({ url, operator, cron }: Settings): Bus {
  return {
    url,
    async ask({ path, answer, query = {}, body, named = {}, scope = 'event-bus:read', ...waiting }) {
      const { timeoutMs = TIMEOUT_MS, signal } = waiting;
      const address = new URL(path, url);
      for (const [name, value] of Object.entries(query))
        if (value !== undefined) address.searchParams.set(name, String(value));
      const timeout = AbortSignal.timeout(timeoutMs);
      const request: RequestInit = {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          accept: 'application/json',
          authorization: scope === 'cron' ? cron() : await operator(scope),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        // A token is for the server it was given for.
        redirect: 'manual',
        signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
      };
      const read = await fetch(address, request)
        .then(readWhole)
        .catch((error: unknown) => {
          throw unreachable(error, url, timeoutMs);
        });
      return answered(read, answer, { url, named, isCron: scope === 'cron' });
    },
  };
}

interface Read {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

async function readWhole(response: Response): Promise<Read> {
  return { status: response.status, headers: response.headers, text: await response.text() };
}

function answered<View>(
  { status, headers, text }: Read,
  schema: z.ZodType<View>,
  asked: Pick<Refused, 'url' | 'named' | 'isCron'>,
): Answered<View> {
  const { json, shown } = jsonIn(text);
  if (status < 200 || status >= 300) {
    const told = problem.safeParse(shown);
    throw refusal({ status, headers, problem: told.success ? told.data : null, ...asked });
  }
  if (json === undefined) throw noPostbud(asked.url, status);
  const view = schema.safeParse(shown);
  if (view.success) return { json, view: view.data };
  const [issue] = view.error.issues;
  throw new Failure(
    EXIT.failed,
    `${asked.url.origin} answered something else than this command understands (${issue?.path.join('.') || 'it'}: ${issue?.message}).`,
    'Is it a Postbud, and of this version?',
  );
}

/** @returns undefined for what is no JSON, or nested deeper than anything that is ours. */
function jsonIn(text: string): { readonly json: unknown; readonly shown: unknown } {
  try {
    const json: unknown = JSON.parse(text);
    return { json, shown: printable(json) };
  } catch {
    return { json: undefined, shown: undefined };
  }
}
