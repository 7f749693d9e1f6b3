import { Webhook } from 'standardwebhooks';

/**
 * Stands in for an accounting system elsewhere: takes signed CloudEvents over HTTP, and is down when a card payment
 * is first reported to it. What it refused once it takes the next time.
 */
export function createAccounting(secret: string): (request: Request) => Promise<Response> {
  const verifier = new Webhook(secret);
  const refused = new Set<string>();
  return async (request) => {
    const body = await request.text();
    let event: { id?: string; type?: string; data?: { provider?: string } };
    try {
      event = verifier.verify(body, Object.fromEntries(request.headers)) as typeof event;
    } catch {
      return new Response('not signed by the bus', { status: 401 });
    }
    const isCapture = event.type === 'payment.captured' && event.data?.provider === 'cardpayments';
    if (isCapture && event.id && !refused.has(event.id)) {
      refused.add(event.id);
      return new Response('down for maintenance', { status: 500 });
    }
    return new Response(null, { status: 204 });
  };
}
