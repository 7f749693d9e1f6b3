import { Webhook } from 'standardwebhooks';

/** How the bookings of payments end that are told apart by what accounting first says of them. */
export const CLOSED_PERIOD = '-closed';
export const DOWN = '-down';

/**
 * Stands in for an accounting system elsewhere: takes signed CloudEvents over HTTP. The first time that it is told of
 * some payments it says that their period is closed, which is for good, or is down for maintenance. What it refused
 * once it takes the next time.
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
