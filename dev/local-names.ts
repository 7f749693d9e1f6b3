import type { IncomingMessage } from 'node:http';

import type { ServerRequest } from 'srvx';

import { detailOf } from '../lib/http/problem-codes.ts';
import { Problem } from '../lib/http/problem.ts';

/**
 * The names of this machine for itself. A page elsewhere can have its own host name lead here (DNS rebinding), and
 * would then be of the same origin as the console; what it can't do is to ask for one of these.
 */
const LOCAL_HOST = /^(localhost\.?|127\.0\.0\.1|\[::1\])(:\d*)?$/i;

/** @param host as a header or a URL says it, with a port or without. */
export function isLocalHost(host: string | undefined): boolean {
  // A port that is too large makes no URL.
  return host !== undefined && LOCAL_HOST.test(host) && URL.canParse(`http://${host}`);
}

/** For a person whose hosts file or proxy has another name for this machine. */
export const NOT_LOCAL = detailOf('misdirected_request');

/** Whether a request asks for this machine: by one name, since a proxy may go by the first of two or by the last. */
export function asksForThisMachine(incoming: Pick<IncomingMessage, 'rawHeaders'> | undefined): boolean {
  // Names and values in turn. Of two, Node's `headers` has the first.
  const [host, ...others] = (incoming?.rawHeaders ?? []).filter(
    (_, index, all) => index % 2 === 1 && all[index - 1]?.toLowerCase() === 'host',
  );
  return others.length === 0 && isLocalHost(host);
}

/** @throws Problem 421 `misdirected_request` */
export function requireLocalHost({ runtime }: ServerRequest): void {
  if (!asksForThisMachine(runtime?.node?.req)) throw new Problem('misdirected_request');
}

/** Lets programs send what they like, and pages of this machine. @throws Problem 403 `origin_not_allowed` */
export function requireLocalOrigin({ method, headers }: Request): void {
  const origin = headers.get('origin');
  if (method === 'GET' || method === 'HEAD' || origin === null) return;
  const [, host] = /^https?:\/\/([^/]+)$/.exec(origin) ?? [];
  if (isLocalHost(host)) return;
  throw new Problem('origin_not_allowed', { detail: 'Only pages of this machine may call here.' });
}
