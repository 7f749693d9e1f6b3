import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import type { z } from 'zod';

import type { Operation, Scope } from '../lib/platform/http/operation.ts';
import { SECOND } from '../lib/platform/time.ts';
import { EXIT, Failure } from './arguments.ts';
import { noPostbud, refusal, unreachable } from './refusals.ts';
import type { Refused } from './refusals.ts';
import type { Settings } from './settings.ts';
import { printable } from './terminal.ts';

/** The part of a route's declaration that commands use. */
export interface Route<View> extends Pick<Operation, 'method' | 'path'> {
  readonly access: Scope;
  readonly answer: z.ZodType<View>;
}

/** A request to a route. */
interface Asked {
  /** The parameters in the route's path. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Undefined values are left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Maps the request’s fields to options of other names. */
  readonly named?: Readonly<Record<string, string>>;
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

export function busAt({ url, authorization }: Settings): Bus {
  return {
    url,
    async ask({ method, path, access, answer }, asked = {}) {
      const { parameters = {}, query = {}, body, named = {} } = asked;
      const address = new URL(filledIn(path, parameters), url);
      for (const [name, value] of Object.entries(query))
        if (value !== undefined) address.searchParams.set(name, String(value));
      const headers = {
        accept: 'application/json',
        'accept-encoding': 'gzip',
        authorization: await authorization(access),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      };
      const received = await exchange(address, {
        method,
        headers,
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      }).catch((error: unknown) => {
        throw unreachable(error, url, TIMEOUT_MS);
      });
      const sent = { ...parameters, ...query, ...(typeof body === 'object' && body) };
      return await viewOf(received, answer, { url, sent, named });
    },
  };
}

function filledIn(path: string, parameters: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parameters[name] ?? ''));
}

async function viewOf<View>(
  { status, headers, text }: Received,
  schema: z.ZodType<View>,
  asked: Pick<Refused, 'url' | 'sent' | 'named'>,
): Promise<Answered<View>> {
  const { json, shown } = jsonIn(text);
  if (status < 200 || status >= 300) {
    const { problem } = await import('../lib/platform/http/problem-shape.ts');
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

/** @returns undefined for text that is not JSON, or is nested deeper than any of our answers. */
function jsonIn(text: string): Readonly<Record<'json' | 'shown', unknown>> {
  try {
    const json: unknown = JSON.parse(text);
    return { json, shown: printable(json) };
  } catch {
    return { json: undefined, shown: undefined };
  }
}

/** An answer, whole. */
interface Received {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/**
 * Sends a request and reads its answer. Follows no redirect: a token must not reach another server.
 *
 * Not by `fetch`, which takes a command a tenth of a second more, to load and to end.
 *
 * @throws the signal's reason once it is aborted, else the connection's error.
 */
async function exchange(
  url: URL,
  { body, ...sent }: RequestOptions & { readonly body: string | undefined; readonly signal: AbortSignal },
): Promise<Received> {
  const { request } = await (url.protocol === 'https:' ? import('node:https') : import('node:http'));
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request(url, sent, resolve).on('error', reject).end(body);
    });
    const { statusCode: status = 0, headers } = answer;
    const whole = await buffer(answer);
    // The host compresses: the overview is 20 times smaller then.
    const text = headers['content-encoding'] === 'gzip' ? gunzipSync(whole) : whole;
    return { status, headers, text: new TextDecoder().decode(text) };
  } catch (error) {
    sent.signal.throwIfAborted();
    throw error;
  }
}
