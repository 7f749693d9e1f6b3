import { eventIdFrom, eventTypeFrom } from './event.ts';
import { type Claim, Refusal, requireHeader, type SignedRequest, type WebhookScheme } from './scheme.ts';
import { textKey } from './secret.ts';
import { parseSignature } from './signature.ts';

/**
 * GitHub and the many providers that copied its scheme: `X-Hub-Signature-256: sha256=<hex>` over the body.
 *
 * The event's id and type come from the body. GitHub's own `X-GitHub-Delivery` and `X-GitHub-Event` are not signed:
 * someone who replays a request could change them, and the duplicate would count as new.
 *
 * @see https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
export const githubStyle: WebhookScheme = {
  keyOf: textKey,
  claimOf,
  eventOf: ({ fields: { eventId, id, type } }) => {
    return { eventId: eventIdFrom(eventId ?? id), eventType: eventTypeFrom(type) };
  },
};

function claimOf({ headers, body }: SignedRequest): Claim {
  const header = requireHeader(headers, 'x-hub-signature-256');
  const [, candidate] = /^sha256=(\S+)$/.exec(header) ?? [];
  const signature = candidate && parseSignature('hmac-sha256', 'hex', candidate);
  if (!signature) throw new Refusal('malformed_header');
  return { timestamp: null, message: body, signatures: [signature] };
}
