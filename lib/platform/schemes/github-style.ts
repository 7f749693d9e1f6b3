import { eventIdFrom, eventTypeFrom } from './event.ts';
import {
  type Claim,
  Refusal,
  requireHeader,
  type SignedRequest,
  type VerifiedRequest,
  type WebhookEvent,
  type WebhookScheme,
} from './scheme.ts';
import { textKey } from './secret.ts';
import { parseSignature } from './signature.ts';

/**
 * GitHub and the many providers that copied its scheme: `X-Hub-Signature-256: sha256=<hex>` over the body, or the bare
 * hex, or either in a header of another name.
 *
 * The event's id and type come from the body, or, for GitHub's own deliveries, from `X-GitHub-Delivery` and
 * `X-GitHub-Event`. These are not signed: someone who replays a request could change them, so the receipt of the body
 * decides whether such a webhook is new. Two of them with equal bodies count as one.
 *
 * @see https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
export const githubStyle: WebhookScheme = { keyOf: textKey, claimOf, eventOf };

function eventOf({ headers, fields: { eventId, id, type, action } }: VerifiedRequest): WebhookEvent {
  const named = headers.get('x-github-event');
  const ofGithub = typeof action === 'string' ? `${named}.${action}` : named;
  const eventType = eventTypeFrom(type) ?? (named === null ? null : eventTypeFrom(ofGithub));
  const signed = eventId ?? id;
  if (signed !== undefined) return { eventId: eventIdFrom(signed), eventType };
  return { eventId: eventIdFrom(headers.get('x-github-delivery')), eventType, isIdUnsigned: true };
}

function claimOf({ headers, body, signatureHeader = 'x-hub-signature-256' }: SignedRequest): Claim {
  const header = requireHeader(headers, signatureHeader);
  const signature = parseSignature('hmac-sha256', 'hex', header.replace(/^sha256=/, ''));
  if (!signature) throw new Refusal('malformed_header');
  return { timestamp: null, message: body, signatures: [signature] };
}
