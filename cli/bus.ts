import type { z } from 'zod';

import type { Access, Operation } from '../lib/platform/http/operation.ts';
import { SECOND } from '../lib/platform/time.ts';
import { exchange } from './exchange.ts';
import type { Received } from './exchange.ts';
import { EXIT, Failure } from './failure.ts';
import { noPostbud, refusal, unreachable } from './refusals.ts';
import type { Refused } from './refusals.ts';
import type { Settings } from './settings.ts';
import { printable } from './text.ts';

/** The part of a route's declaration that commands use. */
export interface Route<View> extends Pick<Operation, 'method' | 'path'> {
  readonly access: Exclude<Access, 'anyone' | 'provider' | 'producer'>;
  readonly answer: z.ZodType<View>;
}

/** A request to a route. */
export interface Asked {
  /** The parameters in the route's path. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Undefined values are left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Maps the request’s fields to options of other names. */
  readonly named?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The server’s answer. */
export interface Answered<View> {
  /** As received. */
  readonly json: unknown;
  /** Parsed, and safe to show. */
  readonly view: View;
}

/** The bus, over HTTP. */
export interface Bus {
  readonly url: URL;
  /** @throws Failure for anything but the route's answer. */
  readonly ask: <View>(route: Route<View>, asked?: Asked) => Promise<Answered<View>>;
}

/** Longer than a function runs. */
const TIMEOUT_MS = 35 * SECOND;

export function busAt({ url, operator, cron }: Settings): Bus {
  return {
    url,
    async ask({ method, path, access, answer }, asked = {}) {
      const { parameters = {}, query = {}, body, named = {}, timeoutMs = TIMEOUT_MS, signal } = asked;
      const address = new URL(filledIn(path, parameters), url);
      for (const [name, value] of Object.entries(query))
        if (value !== undefined) address.searchParams.set(name, String(value));
      const timeout = AbortSignal.timeout(timeoutMs);
      const headers = {
        accept: 'application/json',
        authorization: access === 'cron' ? await cron() : await operator(access),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      };
      const received = await exchange(address, {
        method,
        headers,
        body: JSON.stringify(body),
        signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
      }).catch((error: unknown) => {
        throw unreachable(error, url, timeoutMs);
      });
      const sent = { ...parameters, ...query, ...(typeof body === 'object' && body) };
      return await viewOf(received, answer, { url, parameters, sent, named, isCron: access === 'cron' });
    },
  };
}

function filledIn(path: string, parameters: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parameters[name] ?? ''));
}

async function viewOf<View>(
  { status, headers, text }: Received,
  schema: z.ZodType<View>,
  asked: Pick<Refused, 'url' | 'parameters' | 'sent' | 'named' | 'isCron'>,
): Promise<Answered<View>> {
  const { json, shown } = jsonIn(text);
  if (status < 200 || status >= 300) {
    const { problem } = await import('../lib/platform/http/problem-shape.ts');
    const { data = null } = problem.safeParse(shown);
    throw await refusal({ status, headers, problem: data, ...asked });
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

/** @returns undefined for text that is not JSON, or is nested deeper than any of our answers. */
function jsonIn(text: string): { readonly json: unknown; readonly shown: unknown } {
  try {
    const json: unknown = JSON.parse(text);
    return { json, shown: printable(json) };
  } catch {
    return { json: undefined, shown: undefined };
  }
}
