import { Webhook } from 'standardwebhooks';

/** Endings of booking ids whose payments accounting refuses the first time. */
export const CLOSED_PERIOD = '-closed';
export const DOWN = '-down';

/**
 * Stands in for an external accounting system that receives signed CloudEvents over HTTP. It refuses some payments the
 * first time, either permanently, because their period is closed, or because it is down for maintenance. It accepts
 * them the second time.
 */
export function createAccounting(secret: string): (request: Request) => Promise<Response> {
  const verifier = new Webhook(secret);
  const refused = new Set<string>();
  return async (request) => {
    const body = await request.text();
    let event: { id?: string; data?: { bookingId?: string } };
    try {
      event = verifier.verify(body, Object.fromEntries(request.headers)) as typeof event;
    } catch {
      return new Response('not signed by the bus', { status: 401 });
    }
    const { id = '', data: { bookingId = '' } = {} } = event;
    const isFirst = !refused.has(id);
    if (isFirst && bookingId.endsWith(CLOSED_PERIOD)) {
      refused.add(id);
      return new Response('the period is closed', { status: 410 });
    }
    if (isFirst && bookingId.endsWith(DOWN)) {
      refused.add(id);
      return new Response('down for maintenance', { status: 500 });
    }
    return new Response(null, { status: 204 });
  };
}
