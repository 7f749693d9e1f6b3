import type { z } from 'zod';

import type { Scope } from '../lib/http/openapi/operation.ts';
import { SECOND } from '../lib/time.ts';
import { problem } from './answers.ts';
import { EXIT, Failure } from './failure.ts';
import { noPostbud, refusal, unreachable } from './refusals.ts';
import type { Refused } from './refusals.ts';
import type { Settings } from './settings.ts';
import { printable } from './text.ts';

/** The server’s answer. */
interface Answered<View> {
  /** As received. */
  readonly json: unknown;
  /** Parsed, and safe to show. */
  readonly view: View;
}

interface Asked<View> {
  readonly path: string;
  readonly answer: z.ZodType<View>;
  /** Undefined values are left out. */
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  /** Makes the request a POST with this as JSON. */
  readonly body?: unknown;
  /** Maps the request’s fields to options of other names. */
  readonly named?: Readonly<Record<string, string>>;
  /** The scope that the token needs; `cron` sends the cron’s secret instead. */
  readonly scope?: Scope | 'cron';
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The bus, over HTTP. */
export interface Bus {
  readonly url: URL;
  /** @throws Failure for anything but the expected answer. */
  readonly ask: <View>(asked: Asked<View>) => Promise<Answered<View>>;
}

/** Longer than a function runs. */
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
        // A token must not reach another server.
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
    const { data = null } = problem.safeParse(shown);
    throw refusal({ status, headers, problem: data, ...asked });
  }
  if (json === undefined) throw noPostbud(asked.url, status);
  const view = schema.safeParse(shown);
  if (view.success) return { json, view: view.data };
  const [issue] = view.error.issues;
  throw new Failure(
    EXIT.failed,
    `${asked.url.origin} sent an answer that this version can’t read (${issue?.path.join('.') || 'JSON'}: ${issue?.message}).`,
    'Does the server run the same version of Postbud?',
  );
}

/** @returns undefined for text that is not JSON, or is nested too deeply to be ours. */
function jsonIn(text: string): { readonly json: unknown; readonly shown: unknown } {
  try {
    const json: unknown = JSON.parse(text);
    return { json, shown: printable(json) };
  } catch {
    return { json: undefined, shown: undefined };
  }
}
