import { describe, expect, test } from 'vitest';

import { followed } from '../../lib/console/actions.ts';
import { followedPath, followIn } from '../../lib/console/kit/following.ts';
import { withParameters } from '../../lib/console/kit/links.ts';
import { Problem } from '../../lib/platform/http/problem.ts';

const urlOf = (path: string) => new URL(path, 'http://localhost');

describe('the address of a page that follows an action', () => {
  const paused = { subscriber: 'postcards', topic: 'payment.captured' };
  const path = followedPath('/events?topic=user.signed_up', 'pause', paused);

  test('names the action and what it acted on in one parameter each, beside those of the page', () => {
    expect(path).toBe(
      '/events?topic=user.signed_up&done=pause&done.subscriber=postcards&done.topic=payment.captured',
    );
  });

  test('leaves out what does not apply', () => {
    expect(followedPath('/', 'pause', { subscriber: 'ledger', topic: null })).toBe(
      '/?done=pause&done.subscriber=ledger',
    );
  });

  test('is read by the follower of the action', () => {
    expect(followIn(urlOf(path), followed)).toBeTypeOf('function');
    expect(followIn(urlOf('/events?topic=user.signed_up'), followed)).toBeNull();
  });

  test('is not passed on by links to other views of the page', () => {
    expect(withParameters(urlOf(path), { state: 'failing' })).toBe(
      '/events?topic=user.signed_up&state=failing',
    );
  });

  test.each([
    [
      '?done=retry&done.deliveryId=all',
      'done.deliveryId: expected a delivery id, such as 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
    ],
    ['?done=skip', 'done.deliveryId: expected a string, got nothing'],
    ['?done=replay&done.replayId=all', 'done.replayId: expected the id of a replay'],
    [
      '?done=dismiss&done.deliveryId=019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.ledger&done.lane=x',
      'done.lane: expected released, got "x"',
    ],
    [
      '?done=pause&done.subscriber=ledger/*',
      'done.subscriber: expected the name of a subscriber, for example ledger',
    ],
    ['?done=repair&done.id=x', 'done.id: expected the id of a row or of an event'],
    ['?done=constructor', expect.stringMatching(/^done: expected .* or retry or .*, got "constructor"$/)],
  ])('%s is refused: %s', (query, detail) => {
    expect(() => followIn(urlOf(`/${query}`), followed)).toThrow(
      expect.objectContaining({ constructor: Problem, code: 'validation_failed', detail }),
    );
  });
});
