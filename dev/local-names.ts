import type { IncomingMessage } from 'node:http';

import type { ServerRequest } from 'srvx';

import { detailOf } from '../lib/platform/http/problem-codes.ts';
import { Problem } from '../lib/platform/http/problem.ts';

/**
 * This machine's names for itself. A page elsewhere can point its own host name here (DNS rebinding) and would then
 * share the console's origin, but its requests can't carry one of these names.
 */
const LOCAL_HOST = /^(localhost\.?|127\.0\.0\.1|\[::1\])(:\d*)?$/i;

/** @param host from a header or a URL, with or without a port. */
export function isLocalHost(host: string | undefined): boolean {
  // A port that is too large makes the URL invalid.
  return host !== undefined && LOCAL_HOST.test(host) && URL.canParse(`http://${host}`);
}

/** For a person whose hosts file or proxy has another name for this machine. */
export const NOT_LOCAL = detailOf('misdirected_request');

/** Tells whether a request names this machine, once: of two names, a proxy may have used either. */
export function asksForThisMachine(incoming: Pick<IncomingMessage, 'rawHeaders'> | undefined): boolean {
  // Names and values alternate. Of two hosts, Node's `headers` has the first.
  const [host, ...others] = (incoming?.rawHeaders ?? []).filter(
    (_, index, all) => index % 2 === 1 && all[index - 1]?.toLowerCase() === 'host',
  );
  return others.length === 0 && isLocalHost(host);
}

/** @throws Problem 421 `misdirected_request` */
export function requireLocalHost({ runtime }: ServerRequest): void {
  if (!asksForThisMachine(runtime?.node?.req)) throw new Problem('misdirected_request');
}

/** Lets programs and pages of this machine send requests. @throws Problem 403 `origin_not_allowed` */
export function requireLocalOrigin({ method, headers }: Request): void {
  const origin = headers.get('origin');
  if (method === 'GET' || method === 'HEAD' || origin === null) return;
  const [, host] = /^https?:\/\/([^/]+)$/.exec(origin) ?? [];
  if (isLocalHost(host)) return;
  throw new Problem('origin_not_allowed', { detail: 'Only pages of this machine may call here.' });
}
