import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';

/** A request, whole. */
interface Sent {
  readonly method: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

/** An answer, whole. */
export interface Received {
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
export async function exchange(url: URL, { method, headers, body, signal }: Sent): Promise<Received> {
  const { request } = await (url.protocol === 'https:' ? import('node:https') : import('node:http'));
  try {
    return await new Promise((resolve, reject) => {
      request(url, { method, headers, signal }, (answer) => {
        const { statusCode: status = 0, headers: received } = answer;
        text(answer).then((whole) => resolve({ status, headers: received, text: whole }), reject);
      })
        .on('error', reject)
        .end(body);
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}
