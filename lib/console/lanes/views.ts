import { isTopicName } from '../../bus/catalog/catalog.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { hasEvents } from '../kit/known-names.ts';
import { HOME } from '../kit/links.ts';
import { topicText } from '../kit/replay-request.ts';
import { view } from '../kit/view.ts';
import { topicDoc } from './doc.ts';
import { readTopic, topicView } from './read.ts';
import { showRetryPrice } from './retry-price.ts';

const UNKNOWN_TOPIC =
  'Unknown topic. The catalog lists the topics of this release: /platform/event-bus/catalog.';

const showTopic = view({
  id: 'readTopic',
  path: `${HOME}/topics/{topic}`,
  summary: 'See one topic: its subscribers, waiting lanes, errors and newest events',
  parameters: { topic: topicText },
  answer: topicView,
  links: {
    probe: {
      operationId: 'probeDelivery',
      description: 'Try the delivery that holds the first lane once, at no cost.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: { reason: 'Is accounting back?' },
    },
    retryNow: {
      operationId: 'retryNow',
      description: 'Retry the delivery that holds the first lane now.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: {},
    },
    previewRetry: {
      operationId: 'previewRetry',
      description: 'What that retry costs.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
    },
    skip: {
      operationId: 'skip',
      description: 'Skip that delivery, so that its lane continues.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: { reason: 'The subscriber will never accept it.' },
    },
  },
  unknown: UNKNOWN_TOPIC,
  examples: {
    'a-topic': {
      summary: 'A topic',
      parameters: { topic: 'payment.dispute.closed' },
      answer: answered(),
    },
    'no-such-topic': {
      summary: 'A topic that is not in the catalog',
      parameters: { topic: 'payment.forgotten' },
      answer: refused('not_found', { detail: UNKNOWN_TOPIC }),
    },
  },
  handle: async ({ parameters, bus }) => {
    const db = await bus.database();
    const isKnown = isTopicName(parameters.topic) || (await hasEvents(db, parameters.topic));
    return isKnown ? await readTopic(db, bus.subscribers(), parameters.topic) : null;
  },
  says: topicDoc,
});

export const laneViews = [showTopic, { route: showRetryPrice }];
