import { STATUS_CODES } from 'node:http';

import * as z from 'zod';

/** What stands in `code` of a problem: its status, and a detail as callers are told it. */
export type ProblemCode = keyof typeof problemCodes;

interface Described {
  readonly status: number;
  readonly detail: string;
}

const described = <Code extends string>(
  status: number,
  codes: Readonly<Record<Code, string>>,
): Readonly<Record<Code, Described>> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same keys
  Object.fromEntries(
    Object.entries<string>(codes).map(([code, detail]) => [code, { status, detail }]),
  ) as Readonly<Record<Code, Described>>;

/** All codes of all endpoints. Each has one status wherever it comes. */
export const problemCodes = {
  ...described(400, {
    validation_failed: 'email: write an e-mail address',
    incomplete_body: 'The body broke off. Send the request again.',
    invalid_event_id:
      'The event has no id, or one that cannot be kept: up to 255 letters, digits and signs, as a string.',
    invalid_utf8: 'The body is not valid UTF-8. Encode the JSON text as UTF-8.',
    invalid_json: 'The body is not valid JSON. Send one JSON object, without a byte order mark before it.',
    not_an_object:
      'The body is JSON but not an object. Wrap it in an object: { "id": …, "type": …, "data": … }.',
    unsupported_text:
      'A string or a key holds U+0000 or half of a surrogate pair, which cannot be stored. Leave those characters out.',
    too_deep: 'Objects and arrays are nested more than 64 deep. Flatten the body.',
    unsupported_number: 'A number is too large to be stored. Send it as a string.',
    not_confirmed: 'Type 128 to confirm.',
    token_too_long:
      'The token is longer than a browser keeps, which is 4000 bytes. Get one with fewer claims.',
  }),
  ...described(401, {
    unauthorized: 'Send an operator’s token: Authorization: Bearer <JWT>.',
    invalid_token: 'The token is not valid, or has expired.',
    invalid_signature: 'The signature or its time is missing or not valid.',
  }),
  ...described(403, {
    origin_not_allowed: 'Pages of this origin may not call: CORS_ORIGINS does not list it.',
    insufficient_scope: 'The token lacks the scope event-bus:read.',
    cross_site_request:
      'Nothing was done: the request did not come from a page of the console. Do it from there, or send the token as Authorization: Bearer <JWT>.',
  }),
  ...described(404, {
    not_found: 'There is nothing at this address.',
    unknown_provider: 'There is no such webhook endpoint.',
  }),
  ...described(405, { method_not_allowed: 'Use POST, OPTIONS.' }),
  ...described(406, {
    not_acceptable:
      'There are only HTML and JSON of this. Send Accept: text/html or Accept: application/json, or leave it out.',
  }),
  ...described(409, {
    count_changed: '12 deliveries match, not 10: check them again before you replay.',
    no_such_subscription:
      'This release’s catalog does not list accounting for payment.captured: replay from a release that does, or list it again. Nothing was replayed.',
    not_first: 'An earlier delivery in this lane is unfinished. Reload to see which delivery holds the lane.',
    not_waiting: 'This delivery is not waiting for a retry: it is due now, delivered or dead-lettered.',
    relay_off:
      'This deployment does not relay: it is a preview, or RELAY is off. Set RELAY=on to change that.',
    under_way: 'A relay is delivering this lane at the moment. Try again in a few seconds.',
  }),
  ...described(413, { body_too_large: 'The body is longer than 65536 bytes. Send less.' }),
  ...described(415, {
    unsupported_media_type: 'Send JSON in UTF-8, with content-type: application/json.',
    unsupported_encoding: 'Send the body uncompressed, without content-encoding.',
  }),
  ...described(422, {
    idempotency_key_reused: 'Idempotency-Key: write another Idempotency-Key for another body.',
  }),
  ...described(429, { rate_limited: 'Too many calls. Try again in 41 seconds.' }),
  ...described(500, { internal_error: 'Something went wrong here. The request id finds it in our logs.' }),
  ...described(502, {
    provider_unavailable: 'The language model is busy or down. Try again in a moment.',
    provider_rejected:
      'The language model did not take the request. The request id finds out why in our logs.',
    provider_timeout: 'The language model did not answer in time. Try again.',
    provider_unreachable: 'The language model could not be reached. Try again in a moment.',
    provider_bad_response: 'The language model answered something that is not an answer. Try again.',
    email_failed: 'The mail provider refused the mail. Nothing was sent.',
    email_timeout: 'The mail provider did not answer in time. The mail may have been sent all the same.',
    email_unreachable: 'The mail provider could not be reached. Nothing was sent.',
  }),
  ...described(503, {
    chat_not_configured: 'The chat is not set up yet.',
    email_not_configured: 'Inquiries can’t be sent: the server has no mail key, sender or administrator.',
    webhook_not_configured: 'This webhook endpoint has no usable secret yet.',
    cron_not_configured: 'CRON_SECRET is not set.',
    operators_not_configured: 'No key for operators’ tokens is configured.',
    key_server_unavailable: 'The key server does not answer.',
    database_unavailable: 'The webhook could not be stored. Send it again.',
    misconfigured: 'The server is not set up correctly.',
  }),
};

/** An answer that is an error. @see https://www.rfc-editor.org/rfc/rfc9457 */
export const problem = z
  .object({
    type: z.literal('about:blank'),
    title: z.string().meta({ description: 'The status in words.' }),
    status: z.int().min(400).max(599),
    code: z.string().meta({ description: 'Stable: act on this one.' }),
    detail: z.string().meta({ description: 'What is wrong, for whoever builds the caller.' }),
    requestId: z.string().meta({ description: 'Finds the request in our logs. The same as X-Request-Id.' }),
    issues: z
      .array(
        z
          .object({
            path: z
              .string()
              .meta({ description: 'Dotted, for example `lines.0.email`; empty for the body.' }),
            pointer: z.string().meta({ description: 'The same as a JSON Pointer (RFC 6901).' }),
            code: z.string(),
            message: z.string().meta({ description: 'What to write there instead.' }),
          })
          .meta({ id: 'Issue', description: 'What is wrong with one field of a request.' }),
      )
      .optional()
      .meta({ description: 'With `validation_failed`: one for every wrong field.' }),
  })
  .meta({ id: 'Problem', description: 'An answer that is an error (RFC 9457).' });

/** A problem as an answer's body. */
export function problemValue(
  code: ProblemCode,
  { detail, issues }: Partial<Pick<z.output<typeof problem>, 'detail' | 'issues'>> = {},
): z.output<typeof problem> {
  const { status, detail: usual } = problemCodes[code];
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? `${status}`,
    status,
    code,
    detail: detail ?? usual,
    requestId: '5f0a4d3c-8a3e-4c55-9a35-0c7c4d0f3b1e',
    ...(issues && { issues }),
  };
}
