import * as z from 'zod';

import { signInRequest } from '../../operators/access/routes.ts';
import { answered, HTML_TYPE, JSON_TYPE, refused } from '../../http/openapi/operation.ts';
import type { Answer, Operation } from '../../http/openapi/operation.ts';
import { fetchSite } from '../parameters.ts';

const PATH = '/platform/event-bus/sign-in';
const SAME_ORIGIN = { 'Sec-Fetch-Site': 'same-origin' };

const seeOther: Answer = {
  status: 303,
  description: 'The same, to a browser: the page to go on to.',
  headers: ['Location', 'Set-Cookie'],
};

export const showSignIn: Operation = {
  id: 'showSignIn',
  method: 'get',
  path: PATH,
  tag: 'Sign-in',
  summary: 'Get the form that takes a token',
  description: 'For people. Programs need no session: they send the token with every request.',
  access: 'anyone',
  hasPages: true,
  answers: [
    {
      status: 200,
      description: 'The form, or to a program what to do instead.',
      content: { [JSON_TYPE]: z.object({ detail: z.string() }), [HTML_TYPE]: z.string() },
    },
  ],
  problems: ['not_acceptable'],
  examples: {
    'by-a-program': {
      summary: 'By a program',
      answer: answered({
        detail: 'Programs need no session: send Authorization: Bearer <JWT> with every request.',
      }),
    },
    'by-a-browser': { summary: 'By a browser', answer: { status: 200, type: HTML_TYPE } },
  },
};

export const signIn: Operation = {
  id: 'signIn',
  method: 'post',
  path: PATH,
  tag: 'Sign-in',
  summary: 'Put a token into the session’s cookie',
  description: 'For as long as the token is valid, and at most 8 hours.',
  access: 'anyone',
  hasPages: true,
  isLimited: true,
  parameters: [fetchSite],
  body: { schema: signInRequest, forms: true, limitBytes: 64 * 1024 },
  answers: [
    {
      status: 200,
      description: 'Signed in.',
      content: { [JSON_TYPE]: z.object({ next: z.string().meta({ description: 'Where to go on.' }) }) },
      headers: ['Set-Cookie'],
    },
    seeOther,
  ],
  problems: [
    'validation_failed',
    'token_too_long',
    'incomplete_body',
    'invalid_token',
    'cross_site_request',
    'insufficient_scope',
    'not_acceptable',
    'body_too_large',
    'unsupported_media_type',
    'unsupported_encoding',
    'rate_limited',
    'operators_not_configured',
    'key_server_unavailable',
  ],
  examples: {
    'a-token-that-is-none': {
      summary: 'With a token that nobody has signed',
      parameters: SAME_ORIGIN,
      json: { token: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVk' },
      answer: refused('invalid_token'),
    },
    'from-another-site': {
      summary: 'From a page of another site',
      parameters: { 'Sec-Fetch-Site': 'cross-site' },
      json: { token: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVk' },
      answer: refused('cross_site_request'),
    },
  },
};

export const signOut: Operation = {
  id: 'signOut',
  method: 'post',
  path: '/platform/event-bus/sign-out',
  tag: 'Sign-in',
  summary: 'Have the browser forget the session',
  description: 'The token stays valid until it expires.',
  access: 'anyone',
  hasPages: true,
  parameters: [fetchSite],
  answers: [
    {
      status: 200,
      description: 'Signed out.',
      content: { [JSON_TYPE]: z.object({ signedOut: z.literal(true) }) },
      headers: ['Set-Cookie'],
    },
    seeOther,
  ],
  problems: ['cross_site_request', 'not_acceptable'],
  examples: {
    'by-a-program': {
      summary: 'By a program',
      parameters: SAME_ORIGIN,
      answer: answered({ signedOut: true }),
    },
    'by-a-browser': { summary: 'By a browser', parameters: SAME_ORIGIN, answer: { status: 303 } },
  },
};
