import * as z from 'zod';

import { answered, invalid, JSON_TYPE, refused } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';
import { problem } from '../../platform/http/problem-shape.ts';
import { TOKEN_PARAMETER } from '../turnstile.ts';
import { chatRequest, plainRequest, uiRequest } from './chat-request.ts';

const text = z.string().meta({ description: 'The model’s answer, as plain text or Markdown.' });
const finishReason = z
  .literal('length')
  .optional()
  .meta({ description: 'The answer was cut at its longest.' });
const chatAnswer = z.object({ text, finishReason }).meta({ id: 'ChatAnswer' });

const SYSTEM = 'Du hjelper besøkende på nettstedet til Solvik kommune. Svar kort og på norsk.';
const QUESTION = { role: 'user', content: 'Hva koster det å leie idrettshallen en kveld?' };

/** Twice the limit of the texts, since JSON may escape an emoji of four bytes as twelve characters. */
const BODY_LIMIT_BYTES = 128 * 1024;

export const chatRoute = {
  id: 'chat',
  method: 'post',
  path: '/api/chat',
  tag: 'Chat',
  summary: 'Ask the language model',
  description:
    'Answers with the model’s whole answer, or streams it to callers that accept `text/event-stream`: `delta` events, each with a piece of the text, then `done`, or `error` with the problem. To `useChat` of the AI SDK, which sends messages with `parts`, and to a request with the header `x-vercel-ai-ui-message-stream: v1` it streams the AI SDK’s UI message stream. A failure before the first word is a 502 in each case. If the model refuses, the answer is a 200 with a polite text.',
  access: 'anyone',
  cors: 'listed',
  isLimited: true,
  isAnonymous: true,
  parameters: [TOKEN_PARAMETER],
  body: {
    schema: chatRequest,
    byType: { [JSON_TYPE]: z.union([plainRequest, uiRequest]) },
    limitBytes: BODY_LIMIT_BYTES,
  },
  answers: [
    {
      status: 200,
      description: 'The model’s answer.',
      content: {
        [JSON_TYPE]: chatAnswer,
        'text/event-stream': {
          events: { delta: z.object({ text }), done: z.object({ finishReason }), error: problem },
        },
      },
    },
  ],
  problems: [
    'validation_failed',
    'incomplete_body',
    'origin_not_allowed',
    'body_too_large',
    'unsupported_media_type',
    'unsupported_encoding',
    'rate_limited',
    'verification_required',
    'verification_failed',
    'provider_unavailable',
    'provider_rejected',
    'provider_timeout',
    'provider_unreachable',
    'provider_bad_response',
    'chat_not_configured',
  ],
  examples: {
    'a-question': {
      summary: 'One question',
      json: { system: SYSTEM, messages: [QUESTION] },
      answer: answered({
        text: 'En kveld i idrettshallen koster 625 kroner for lag og foreninger i kommunen.',
      }),
    },
    'a-conversation': {
      summary: 'A longer conversation, answered as a stream',
      json: {
        system: SYSTEM,
        messages: [
          QUESTION,
          { role: 'assistant', content: 'En kveld koster 625 kroner.' },
          { role: 'user', content: 'Og for en privatperson?' },
        ],
      },
      answer: answered(
        'event: delta\ndata: {"text":"For privatpersoner "}\n\nevent: delta\ndata: {"text":"koster det 980 kroner."}\n\nevent: done\ndata: {}\n\n',
        'text/event-stream',
      ),
    },
    'no-messages': {
      summary: 'Without messages',
      json: { system: SYSTEM, messages: [] },
      answer: invalid('messages', 'too_small', 'expected at least 1 element, got 0'),
    },
    'a-foreign-page': {
      summary: 'From a page of another origin',
      parameters: { Origin: 'https://elsewhere.example' },
      json: { system: SYSTEM, messages: [QUESTION] },
      answer: refused('origin_not_allowed'),
    },
  },
} satisfies Operation;
