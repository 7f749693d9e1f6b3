import { describe, expect, test } from 'vitest';

import { chatRequest } from '../../lib/edge/chat/chat-request.ts';
import { costUsd } from '../../lib/edge/chat/cost.ts';

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });
const request = (fields: object = {}) => ({ system: 'Om lokalene.', messages: [user('Hei')], ...fields });

/** The paths of what is wrong with a body. */
function wrongIn(body: unknown): string[] {
  return chatRequest.safeParse(body).error?.issues.map(({ path }) => path.join('.')) ?? [];
}

describe('a chat request', () => {
  test.each([
    ['one message of the user', request()],
    ['a conversation', request({ messages: [user('Hei'), assistant('Hei!'), user('Pris?')] })],
    ['a conversation that the assistant greets in', request({ messages: [assistant('Hei!'), user('Hei')] })],
    ['two messages of one side in a row', request({ messages: [user('Hei'), user('der')] })],
    ['sixteen messages', request({ messages: Array.from({ length: 16 }, () => user('Hei')) })],
    ['8000 characters of system', request({ system: 'æ'.repeat(8000) })],
    ['8000 emojis of system, which are twice as many UTF-16 units', request({ system: '🏟'.repeat(8000) })],
    ['a message of an emoji and its invisible parts', request({ messages: [user('❤\uFE0F')] })],
    ['a long message', request({ messages: [user('a'.repeat(50_000))] })],
  ])('a chat request is accepted with %s', (_, body) => {
    expect(wrongIn(body)).toEqual([]);
  });

  test.each([
    ['no system', { messages: [user('Hei')] }, 'system'],
    ['an empty system', request({ system: '' }), 'system'],
    ['a system of white space', request({ system: ' \n\t' }), 'system'],
    ['8001 characters of system', request({ system: 'a'.repeat(8001) }), 'system'],
    ['a system of content blocks', request({ system: [{ type: 'text', text: 'Hei' }] }), 'system'],
    ['no messages', { system: 'Om lokalene.' }, 'messages'],
    ['an empty list of messages', request({ messages: [] }), 'messages'],
    ['seventeen messages', request({ messages: Array.from({ length: 17 }, () => user('Hei')) }), 'messages'],
    ['a last message of the assistant', request({ messages: [user('Hei'), assistant('Hei')] }), 'messages'],
    [
      'a message of the system',
      request({ messages: [{ role: 'system', content: 'x' }, user('Hei')] }),
      'messages.0.role',
    ],
    ['a message without a role', request({ messages: [{ content: 'Hei' }] }), 'messages.0.role'],
    ['an empty message', request({ messages: [user('')] }), 'messages.0.content'],
    [
      'an earlier empty message',
      request({ messages: [user('Hei'), assistant(' '), user('Hei')] }),
      'messages.1.content',
    ],
    [
      'a message of invisible characters',
      request({ messages: [user('\u200B\u2060\uFEFF\u00AD \u0007')] }),
      'messages.0.content',
    ],
    ['a message of half an emoji', request({ messages: [user('\uD83C')] }), 'messages.0.content'],
    [
      'a message of content blocks',
      request({ messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }),
      'messages.0.content',
    ],
    ['null in place of a message', request({ messages: [null] }), 'messages.0'],
    ['null in place of the body', null, ''],
    ['a list in place of the body', [], ''],
  ])('a chat request is refused with %s', (_, body, path) => {
    expect(wrongIn(body)).toContain(path);
  });

  test.each(['3164', 'FE0F', '2800', '034F', '115F', 'FFA0', 'E0041'])(
    'a chat request is refused with a message of U+%s alone',
    (code) => {
      const blank = String.fromCodePoint(Number.parseInt(code, 16));
      expect(wrongIn(request({ messages: [user(blank)] }))).toEqual(['messages.0.content']);
    },
  );

  const ui = (role: string, ...texts: string[]) => ({
    id: 'a1',
    role,
    parts: [{ type: 'step-start' }, ...texts.map((text) => ({ type: 'text', text, state: 'done' }))],
  });

  test.each<[string, messages: object[], asked: object[]]>([
    ['one question', [ui('user', 'Hei')], [user('Hei')]],
    ['a text in parts', [ui('user', 'Hei ', 'der')], [user('Hei der')]],
    ['a greeting', [ui('assistant', 'Hei!'), ui('user', 'Pris?')], [assistant('Hei!'), user('Pris?')]],
    ['an answer that failed', [ui('user', 'a'), ui('assistant'), ui('user', 'b')], [user('a'), user('b')]],
    [
      'a text that is too long with the earlier ones',
      [ui('user', 'a'.repeat(60_000)), ui('assistant', 'b'), ui('user', 'c'.repeat(6000))],
      [user('c'.repeat(6000))],
    ],
    [
      'a text that is too long alone',
      [ui('user', 'a'), ui('user', 'æ'.repeat(40_000))],
      [user('æ'.repeat(40_000))],
    ],
  ])('a request of useChat with %s is read as one of the plain contract', (_, messages, asked) => {
    const parsed = chatRequest.parse(request({ id: 'c1', trigger: 'submit-message', messages }));
    expect(parsed).toEqual({ ...request({ messages: asked }), isUi: true });
  });

  test.each([
    ['no text', [ui('user', ' ')], 'messages.0.content'],
    ['an answer last', [ui('user', 'a'), ui('assistant', 'b')], 'messages'],
    ['a message of the system', [ui('system', 'x'), ui('user', 'a')], 'messages.0.role'],
    ['a file', [{ role: 'user', parts: [{ type: 'file', url: 'data:,x' }] }], 'messages.0.parts'],
  ])('a request of useChat is refused with %s', (_, messages, path) => {
    expect(wrongIn(request({ messages }))).toContain(path);
  });

  test('half an emoji is repaired, and all else is passed on unchanged', () => {
    const parsed = chatRequest.parse(request({ system: ' Halvt \uD83C', messages: [user('\n🏟 \uDFDF.')] }));
    expect(parsed).toEqual({ system: ' Halvt \uFFFD', messages: [user('\n🏟 \uFFFD.')] });
  });

  test('unknown fields of a chat request are dropped', () => {
    expect(chatRequest.parse(request({ model: 'claude-opus-5', temperature: 2 }))).toEqual(request());
  });
});

describe('the cost of a call', () => {
  test.each([
    [{ input: 10_000, output: 1000 }, 0.0015],
    [{ input: 100_000, output: 1000 }, 0.0105],
    [{ input: 100_001, output: 1000 }, 0.052_501],
    [{ input: 200, output: 50 }, 0.000_045],
    [{ input: 0, output: 0 }, 0],
  ])('the cost of the call %o is $%d', (use, dollars) => {
    expect(costUsd('claude-haiku-5-5', use)).toBeCloseTo(dollars, 6);
  });

  test.each(['claude-opus-9', '', 'constructor'])('is not known for the model "%s"', (model) => {
    expect(costUsd(model, { input: 1, output: 1 })).toBeNull();
  });
});
