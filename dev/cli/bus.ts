import type { z } from 'zod';

import type { Scope } from '../../lib/operators/operator.ts';
import { SECOND } from '../../lib/time.ts';
import { problem } from './answers.ts';
import { EXIT, Failure } from './failure.ts';
import { refusal, unreachable } from './refusals.ts';
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
    async ask({ path, answer, query = {}, body, scope = 'event-bus:read', timeoutMs = TIMEOUT_MS, signal }) {
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
      return answered(read, answer, { url, isCron: scope === 'cron' });
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
  { url, isCron }: { readonly url: URL; readonly isCron: boolean },
): Answered<View> {
  const json = jsonIn(text);
  if (status < 200 || status >= 300) {
    const told = problem.safeParse(printable(json));
    throw refusal({ status, headers, problem: told.success ? told.data : null, url, isCron });
  }
  const view = schema.safeParse(printable(json));
  if (view.success) return { json, view: view.data };
  const [issue] = view.error.issues;
  throw new Failure(
    EXIT.failed,
    `${url.origin} answered something else than this command understands (${issue?.path.join('.') || 'it'}: ${issue?.message}).`,
    'Is it a Postbud, and of this version?',
  );
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
