/** Says what a refusal means, and what to do about it. A reason of another release is shown as it is. */
export function meaningOf(reason: string): string {
  return MEANINGS.get(reason) ?? reason;
}

const MEANINGS = new Map(
  Object.entries({
    signature_mismatch:
      'The signature does not match: the secret here is not the provider’s, or someone else sent it.',
    content_hash_mismatch:
      'The signed hash is not that of the body: a proxy changed the body, or a forger did.',
    timestamp_out_of_tolerance:
      'It was signed more than five minutes ago or ahead: a late repetition, or a clock is wrong.',
    missing_header: 'It has no signature: another scheme is configured here, or a stranger sent it.',
    malformed_header:
      'Its signature cannot be read: another scheme is configured here, or a stranger sent it.',
    no_usable_secret: 'The endpoint has no usable secret. Set it to receive webhooks.',
    webhook_not_configured: 'The endpoint has no usable secret. Set it to receive webhooks.',
    unknown_provider: 'There is no such provider: someone called /webhooks/ with another name.',
    invalid_event_id: 'It is signed, but has no usable id, so a repetition could not be told from a new one.',
    invalid_utf8: 'It is signed, but its body is not UTF-8.',
    invalid_json: 'It is signed, but its body is not JSON.',
    not_an_object: 'It is signed, but its body is not a JSON object.',
    unsupported_text: 'It is signed, but a text in it cannot be stored.',
    too_deep: 'It is signed, but nested more than 64 levels deep.',
    unsupported_number: 'It is signed, but a number in it can’t be kept as it is.',
    body_too_large: 'Its body is longer than 256 kB.',
    incomplete_body: 'Its body ended early: the connection was lost.',
    unsupported_media_type: 'It was not sent as JSON.',
    unsupported_encoding: 'It was sent compressed.',
  }),
);
