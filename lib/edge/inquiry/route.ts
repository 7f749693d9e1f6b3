import * as z from 'zod';

import { answered, HTML_TYPE, invalid, JSON_TYPE, refused } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';
import { TOKEN_PARAMETER } from '../turnstile.ts';
import { inquiryRequest } from './inquiry-request.ts';

const INQUIRY = {
  name: 'Sigrid Aasen',
  email: 'sigrid.aasen@bærum.kommune.no',
  organization: 'Nordvåg kommune',
  topic: 'Demo av hallbooking',
  phone: '+47 400 00 456',
  persona: 'driftsleder',
  message: 'Vi vil gjerne se hvordan sesongleie fungerer.',
  source: 'book-demo',
};

/** Fits every field at its longest in any script, also in a form, which takes up to nine bytes a character. */
const LIMIT_BYTES = 256 * 1024;

export const inquiryRoute = {
  id: 'sendInquiry',
  method: 'post',
  path: '/api/inquiry',
  tag: 'Inquiry',
  summary: 'Send an inquiry to the administrator',
  description:
    'Answers once the mail provider has accepted the mail. An inquiry is sent once for each `Idempotency-Key`, and once for the same content from the same visitor within 10 minutes. An invalid request counts as a try, not as an inquiry. A form from a page without script is answered with a 303 to its `redirect` if that has an allowed origin, else with a page; whoever prefers `application/json` gets JSON. Texts are trimmed before they are measured; optional fields may be empty.',
  access: 'anyone',
  cors: 'listed',
  isLimited: true,
  isAnonymous: true,
  hasPages: true,
  parameters: [
    {
      in: 'header',
      name: 'Idempotency-Key',
      description: 'Names this inquiry, so that a repeated request is not sent again.',
      schema: z.string(),
    },
    TOKEN_PARAMETER,
  ],
  body: { schema: inquiryRequest, forms: true, limitBytes: LIMIT_BYTES },
  answers: [
    {
      status: 200,
      description: 'The mail provider has accepted the mail.',
      content: { [JSON_TYPE]: z.object({ ok: z.literal(true) }), [HTML_TYPE]: z.string() },
      mayHave: ['Idempotent-Replayed'],
    },
    {
      status: 303,
      description: 'The same, to a form with a `redirect`.',
      headers: ['Location'],
      mayHave: ['Idempotent-Replayed'],
    },
  ],
  problems: [
    'validation_failed',
    'incomplete_body',
    'origin_not_allowed',
    'body_too_large',
    'unsupported_media_type',
    'unsupported_encoding',
    'idempotency_key_reused',
    'rate_limited',
    'verification_required',
    'verification_failed',
    'email_failed',
    'email_timeout',
    'email_unreachable',
    'email_not_configured',
  ],
  examples: {
    'an-inquiry': {
      summary: 'An inquiry with a new key',
      parameters: { 'Idempotency-Key': '7c1f0c52-6d0e-4a55-b7c1-1f6d6f7f4a10' },
      json: INQUIRY,
      answer: answered({ ok: true }),
    },
    'another-with-the-same-key': {
      summary: 'Another inquiry with the same key',
      parameters: { 'Idempotency-Key': '7c1f0c52-6d0e-4a55-b7c1-1f6d6f7f4a10' },
      json: { ...INQUIRY, message: 'Kan dere ringe meg på torsdag?' },
      answer: refused('idempotency_key_reused'),
    },
    'another-page': {
      summary: 'From a page with its own source',
      json: { ...INQUIRY, topic: 'Åpningstider', source: 'kontakt-om oss' },
      answer: answered({ ok: true }),
    },
    'a-form': {
      summary: 'A form of a page without script',
      form: { ...INQUIRY, source: 'kontakt-salg' },
      answer: { status: 200, type: HTML_TYPE },
    },
    'a-form-that-goes-on': {
      summary: 'A form with a redirect',
      parameters: { Origin: 'http://localhost:3001' },
      form: { ...INQUIRY, source: 'kontakt-drift', redirect: '/takk' },
      answer: { status: 303 },
    },
    'a-wrong-address': {
      summary: 'With an invalid e-mail address',
      json: { ...INQUIRY, email: 'sigrid' },
      answer: invalid('email', 'invalid_email', 'expected an e-mail address, for example kari@example.no'),
    },
    'a-foreign-page': {
      summary: 'From a page of another origin',
      parameters: { Origin: 'https://elsewhere.example' },
      json: INQUIRY,
      answer: refused('origin_not_allowed'),
    },
  },
} satisfies Operation;
