import { STATUS_CODES } from 'node:http';

/** The `code` of a problem. */
export type ProblemCode = keyof typeof problemCodes;

/** The codes whose detail is always the same, so that a throw site need not write one. */
export type PlainProblemCode = {
  [Code in ProblemCode]: (typeof problemCodes)[Code] extends { readonly detail: string } ? Code : never;
}[ProblemCode];

/**
 * All codes of all endpoints. Each has one status everywhere, and either its `detail` or, where the detail depends on
 * the request, an `example` of one.
 */
export const problemCodes = {
  validation_failed: {
    status: 400,
    example: 'email: expected an e-mail address, for example kari@example.no',
  },
  incomplete_body: { status: 400, detail: 'The body ended early. Send the request again.' },
  invalid_event_id: {
    status: 400,
    detail:
      'The event has no usable id. Send a string of 1 to 255 letters, digits and signs, for example evt_1PqJ2K.',
  },
  invalid_utf8: { status: 400, detail: 'The body is not valid UTF-8. Encode the JSON text as UTF-8.' },
  invalid_json: {
    status: 400,
    detail: 'The body is not valid JSON. Send one JSON object, without a byte order mark before it.',
  },
  not_an_object: {
    status: 400,
    detail: 'The body is JSON but not an object. Wrap it in an object: { "id": …, "type": …, "data": … }.',
  },
  unsupported_text: {
    status: 400,
    detail:
      'A string or a key contains U+0000 or an unpaired surrogate, which cannot be stored. Remove those characters.',
  },
  too_deep: {
    status: 400,
    detail: 'Objects and arrays are nested more than 64 levels deep. Flatten the body.',
  },
  unsupported_number: {
    status: 400,
    detail:
      'A number can’t be kept as it is: an integer is beyond 2^53 (9007199254740992), or a number has more digits than a double. Send it as a string.',
  },
  not_confirmed: { status: 400, example: 'Type 128 to confirm.' },
  token_too_long: {
    status: 400,
    example:
      'The token is longer than 4000 bytes, the most that a browser keeps in a cookie. Get one with fewer claims.',
  },

  unauthorized: { status: 401, detail: 'Send an operator’s token: Authorization: Bearer <JWT>.' },
  invalid_token: { status: 401, detail: 'The token is invalid or has expired.' },
  sign_in_code_spent: {
    status: 410,
    detail:
      'The link was used already, or is older than 10 minutes. Get another with npm run token, or paste a token.',
  },
  sign_in_unknown: {
    status: 410,
    detail:
      'This sign-in was finished already, was begun in another browser, or took longer than an hour. Nobody was signed in. Sign in again.',
  },
  invalid_signature: { status: 401, detail: 'The signature or its timestamp is missing or invalid.' },

  origin_not_allowed: {
    status: 403,
    detail: 'Pages of this origin are not allowed to call: CORS_ORIGINS does not list it.',
  },
  verification_required: {
    status: 403,
    detail:
      'So many calls need a proof that a person makes them. Send the token of Turnstile’s widget in the header cf-turnstile-response, or in the field of that name in a form.',
  },
  verification_failed: {
    status: 403,
    detail:
      'Turnstile did not accept the token: it was used before, is older than five minutes, or is of another page. Send a new one.',
  },
  no_role: {
    status: 403,
    example:
      'Signed in as Kari Nordmann, but none of your roles is mapped. The directory sent /ansatte. Ask whoever runs Postbud to name one of yours in OPERATOR_OIDC_ROLES.',
  },
  directory_refused: {
    status: 403,
    example:
      'login.example.no did not sign you in: you declined, or may not use this application (access_denied). Sign in again, or ask those who run the directory.',
  },
  insufficient_scope: { status: 403, example: 'The token lacks the scope event-bus:read.' },
  not_your_topic: {
    status: 403,
    example: 'payment.captured is a topic of payments, and the request is signed by bookings.',
  },
  cross_site_request: {
    status: 403,
    detail:
      'Nothing was changed: the request did not come from a page of the console. Use the console, or send the token as Authorization: Bearer <JWT>.',
  },

  not_found: { status: 404, detail: 'There is nothing at this address.' },
  unknown_provider: { status: 404, detail: 'There is no webhook endpoint at this address.' },

  method_not_allowed: { status: 405, example: 'PUT is not allowed here. Use POST or OPTIONS.' },

  not_acceptable: {
    status: 406,
    detail:
      'This is available as HTML and as JSON. Send Accept: text/html or Accept: application/json, or leave the header out.',
  },

  conflicting_duplicate: {
    status: 409,
    detail:
      'The source and id of an event are those of another fact, which was recorded before. Nothing of this request was recorded. Give each event an id of its own.',
  },
  count_changed: {
    status: 409,
    example: 'Nothing was replayed: 12 deliveries match, not 10. Preview it again.',
  },
  name_taken: {
    status: 409,
    example:
      'ledger is another subscriber of payment.captured, with deliveries of its own. Nothing was renamed. Where the new name runs already, backfill what books has not got, and retire books.',
  },
  no_such_subscription: {
    status: 409,
    example:
      'This release’s catalog does not list accounting for payment.captured: ask a release that does, or list it again. Nothing was replayed.',
  },
  backfill_under_way: {
    status: 409,
    example:
      'A backfill of payment.captured to ledger is under way: 019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21. Wait until it has ended, or stop it.',
  },
  replay_refused: {
    status: 409,
    example:
      'Replays leave out notifications for payment.captured: its handler refuses them, because it would act twice. Nothing was replayed. Handle these dead letters by hand, then dismiss them.',
  },
  replay_ended: {
    status: 409,
    detail: 'This replay has ended: it has put everything back, or was stopped. Nothing was changed.',
  },
  not_first: {
    status: 409,
    example: 'An earlier delivery in this lane is unfinished. Reload to see which delivery holds the lane.',
  },
  not_waiting: {
    status: 409,
    example: 'This delivery is not waiting for a retry: it is due now, delivered or dead-lettered.',
  },
  halted: {
    status: 409,
    example:
      'Dead letter 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting halts this lane. Replay or dismiss that one.',
  },
  not_silent: {
    status: 409,
    example:
      'ledger has no outage. Probe a delivery that holds one of its lanes instead: /platform/event-bus/subscribers/ledger lists them.',
  },
  paused: { status: 409, example: 'ledger is paused. Resume it first.' },
  outage: {
    status: 409,
    example: 'ledger does not answer, and its deliveries wait for that without a cost. Probe ledger instead.',
  },
  not_broken: {
    status: 409,
    detail:
      'There is nothing to repair: the event awaits its place or has its deliveries, or somebody has repaired it already.',
  },
  incident_closed: {
    status: 409,
    detail: 'This incident is closed: nothing is left of it. If it comes back, it is opened again or anew.',
  },
  still_listed: {
    status: 409,
    example:
      'This release’s catalog lists accounting for payment.captured. Retire it from a release whose catalog does not.',
  },
  unattached: {
    status: 409,
    example:
      'accounting is not attached to payment.captured in this release, so a retry would wait. Its deliveries go on once it is attached.',
  },
  relay_off: {
    status: 409,
    detail: 'This deployment does not relay: it is a preview, or RELAY is off. Set RELAY=on to relay here.',
  },
  read_only: {
    status: 409,
    detail:
      'This console reads a replica of the database, or a role that may change nothing. Nothing was done: act in the console of the primary.',
  },
  under_way: {
    status: 409,
    example: 'A relay is delivering this lane at the moment. Try again in a few seconds.',
  },

  body_too_large: { status: 413, example: 'The body is longer than 65536 bytes. Send less.' },

  unsupported_media_type: {
    status: 415,
    example: 'The content-type is not supported. Send JSON in UTF-8 as application/json.',
  },
  unsupported_encoding: {
    status: 415,
    detail: 'Compressed bodies are not accepted. Send the body without content-encoding.',
  },

  misdirected_request: {
    status: 421,
    detail:
      'This server answers only as localhost, 127.0.0.1 or [::1], so that no page elsewhere can reach it. Open http://localhost and the port.',
  },

  idempotency_key_reused: {
    status: 422,
    detail: 'This Idempotency-Key was sent with another body before. Send a new key with a new body.',
  },

  rate_limited: {
    status: 429,
    example: 'Too many calls: 20 are allowed in a minute. Try again in 41 seconds.',
  },

  internal_error: {
    status: 500,
    detail: 'The request failed on our side. Our logs have the cause under the request id.',
  },

  provider_unavailable: {
    status: 502,
    detail: 'The language model is busy or down. Try again in a moment.',
  },
  provider_rejected: {
    status: 502,
    detail: 'The language model refused the request. Our logs have the cause under the request id.',
  },
  provider_timeout: { status: 502, detail: 'The language model did not answer in time. Try again.' },
  provider_unreachable: {
    status: 502,
    detail: 'The language model could not be reached. Try again in a moment.',
  },
  provider_bad_response: { status: 502, detail: 'The language model sent an unusable answer. Try again.' },
  directory_answer_invalid: {
    status: 502,
    example:
      'The answer of login.example.no is not valid: it has expired (exp). Nobody was signed in. Sign in again; if that fails too, whoever runs Postbud finds the claim in the log.',
  },
  email_failed: {
    status: 502,
    example:
      'The mail provider did not accept the mail. Nothing was sent. The inquiry is kept, and is mailed as soon as the provider takes it: do not send it again.',
  },
  email_timeout: {
    status: 502,
    example:
      'The mail provider did not answer in time. The mail may have been sent all the same. The inquiry is kept, and is mailed as soon as the provider takes it: do not send it again.',
  },
  email_unreachable: {
    status: 502,
    example:
      'There was no connection to the mail provider, or it broke. Nothing was sent. The inquiry is not kept: send it again later.',
  },

  chat_not_configured: { status: 503, detail: 'The chat is not set up yet.' },
  email_not_configured: {
    status: 503,
    detail: 'Inquiries can’t be sent: the server has no mail key, sender or administrator.',
  },
  webhook_not_configured: { status: 503, detail: 'This webhook endpoint has no usable secret yet.' },
  cron_not_configured: { status: 503, detail: 'CRON_SECRET is not set.' },
  kick_not_configured: { status: 503, detail: 'KICK_SECRET is not set: events wait for the next tick.' },
  events_not_configured: {
    status: 503,
    detail: 'No producer has a secret here: set PRODUCER_<NAME>_SECRET.',
  },
  operators_not_configured: { status: 503, detail: 'No key for operators’ tokens is configured.' },
  directory_unavailable: {
    status: 503,
    example: 'No usable answer from the directory login.example.no. Try again in a minute, or use a token.',
  },
  key_server_unavailable: { status: 503, detail: 'The key server does not answer.' },
  database_unavailable: { status: 503, example: 'No answer from the database since 01:12:30 UTC.' },
  misconfigured: { status: 503, detail: 'The server is not set up correctly. Its log names the variable.' },
} as const satisfies Readonly<Record<string, Described>>;

type Described = { readonly status: number } & ({ readonly detail: string } | { readonly example: string });

/** The detail of a code, or an example of one where it depends on the request. */
export function detailOf(code: ProblemCode): string {
  const described: Described = problemCodes[code];
  return 'detail' in described ? described.detail : described.example;
}

/** One invalid field of a request. */
export interface Issue {
  /** Dotted, for example `lines.0.email`. */
  readonly path: string;
  /** The same as a JSON Pointer (RFC 6901). */
  readonly pointer: string;
  readonly code: string;
  readonly message: string;
}

/** A problem as an answer's body. */
export function problemValue(
  code: ProblemCode,
  { detail, issues }: { readonly detail?: string; readonly issues?: readonly Issue[] } = {},
) {
  const { status } = problemCodes[code];
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? `${status}`,
    status,
    code,
    detail: detail ?? detailOf(code),
    requestId: '5f0a4d3c-8a3e-4c55-9a35-0c7c4d0f3b1e',
    ...(issues && { issues }),
  };
}
