import * as z from 'zod';

import { hasFilter, NO_FILTER } from '../kit/filter.ts';
import {
  EMPTY_WINDOW,
  errorWords,
  isEmptyWindow,
  NO_SINCE,
  replayRequest,
  topicText,
} from '../kit/replay-request.ts';

const { since, until, group, subscriber, deliveryIds, expectedCount } = replayRequest.shape;

/** The dead letters that an operator dismisses together: of a filter and a window, or by their ids. */
export const dismissRequest = z
  .strictObject({
    topic: topicText.optional(),
    subscriber,
    group,
    q: errorWords.optional(),
    since: since.meta({
      description:
        'Only deliveries that were dead-lettered within this time: `24h`, `90m`, `7d`. Required unless `deliveryIds` is given.',
    }),
    until,
    deliveryIds,
    expectedCount: expectedCount.meta({
      description: 'Refuses the dismissal unless exactly this many dead letters match.',
    }),
  })
  .superRefine((asked, context) => {
    const requireField = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (asked.deliveryIds) {
      const { topic, subscriber: to, group: of, q, since: from } = asked;
      if ([topic, to, of, q, from].some((filter) => filter !== undefined))
        requireField('deliveryIds', 'expected neither a filter nor since beside it');
      return;
    }
    if (!hasFilter(asked)) requireField('topic', NO_FILTER);
    if (asked.since === undefined) requireField('since', NO_SINCE);
    else if (isEmptyWindow(asked)) requireField('until', EMPTY_WINDOW);
  });

export type ParsedDismissRequest = z.output<typeof dismissRequest>;
