import { METRICS_TYPE } from '../lib/console/metrics/route.ts';
import type { Example } from '../lib/platform/http/operation.ts';
import type { ProblemCode } from '../lib/platform/http/problem-codes.ts';

/** A request to a route of the console, as OpenAPI shows it. Its answer is the one that the contract test has recorded. */
export interface ExampleRequest extends Pick<Example, 'summary' | 'parameters' | 'json' | 'form'> {
  /** The problem that answers it. By default it succeeds. */
  readonly is?: ProblemCode;
  readonly status?: 303;
  /** Of the answer, where it is not JSON. Such an answer is not recorded. */
  readonly type?: string;
}

/** The requests to routes of the console that OpenAPI shows, by operation and name. They are sent in this order. */
export const REQUESTS: Readonly<Record<string, Readonly<Record<string, ExampleRequest>>>> = {
  showSignIn: {
    'by-a-program': { summary: 'By a program' },
    'by-a-browser': { summary: 'By a browser', type: 'text/html' },
  },
  signIn: {
    'a-token-that-is-none': {
      summary: 'With a token that is not signed by a known key',
      parameters: { 'Sec-Fetch-Site': 'same-origin' },
      json: { token: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVk' },
      is: 'invalid_token',
    },
    'from-another-site': {
      summary: 'From a page of another site',
      parameters: { 'Sec-Fetch-Site': 'cross-site' },
      json: { token: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVk' },
      is: 'cross_site_request',
    },
    'a-code-that-was-used': {
      summary: 'With a code that was used already',
      parameters: { 'Sec-Fetch-Site': 'same-origin' },
      json: { code: 'q5Zb0mJxR2uYk7v1tPw3Ng' },
      is: 'sign_in_code_spent',
    },
  },
  makeSignInLink: { 'a-link': { summary: 'A link for the token that was sent', json: {} } },
  signInWithDirectory: {
    'by-a-browser': {
      summary: 'By a browser',
      parameters: { 'Sec-Fetch-Site': 'same-origin' },
      json: { next: '/platform/event-bus' },
      type: 'text/html',
    },
  },
  finishSignIn: {
    'of-no-sign-in': {
      summary: 'Without a sign-in that this browser began',
      parameters: { code: 'SplxlOBeZQQYbYS6WxSbIA', state: 'af0ifjsldkj' },
      is: 'sign_in_unknown',
    },
  },
  signOut: {
    'by-a-program': { summary: 'By a program', parameters: { 'Sec-Fetch-Site': 'same-origin' } },
    'by-a-browser': { summary: 'By a browser', parameters: { 'Sec-Fetch-Site': 'same-origin' }, status: 303 },
  },
  sendTestAlert: {
    'nobody-is-notified': { summary: 'Where no channel is configured', json: {} },
    'not-configured': {
      summary: 'A channel that is not configured',
      json: { channel: 'slack' },
      is: 'validation_failed',
    },
  },
  previewBackfill: {
    'of-a-month': {
      summary: 'What one subscriber lacks of the last 30 days',
      parameters: { topic: 'payment.captured', subscriber: 'ledger', since: '30d', perMinute: 1000 },
    },
    'not-listed': {
      summary: 'A subscriber that the catalog does not list for the topic',
      parameters: { topic: 'payment.captured', subscriber: 'calendar', since: '30d' },
      is: 'no_such_subscription',
    },
    'without-a-beginning': {
      summary: 'Without saying how far back',
      parameters: { topic: 'payment.captured', subscriber: 'ledger' },
      is: 'validation_failed',
    },
  },
  backfill: {
    counted: {
      summary: 'A dry run',
      json: { topic: 'payment.captured', subscriber: 'ledger', since: '30d', dryRun: true },
    },
    'another-number': {
      summary: 'The number of missing deliveries differs from the expected one',
      json: { topic: 'support.incident.declared', subscriber: 'audit', since: '30d', expectedCount: 1000 },
      is: 'count_changed',
    },
    'of-a-month': {
      summary: 'What one subscriber lacks of the last 30 days',
      json: {
        topic: 'payment.captured',
        subscriber: 'ledger',
        since: '30d',
        perMinute: 1000,
        reason: 'The ledger is new on this topic.',
      },
    },
    'not-listed': {
      summary: 'A subscriber that the catalog does not list for the topic',
      json: { topic: 'payment.captured', subscriber: 'calendar', since: '30d' },
      is: 'no_such_subscription',
    },
    'in-the-future': {
      summary: 'A beginning in the future',
      json: { topic: 'payment.captured', subscriber: 'ledger', since: '2999-01-01T00:00:00Z' },
      is: 'validation_failed',
    },
  },
  listDeadLetters: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      parameters: { topic: 'payment.dispute.closed', since: '24h', limit: 10 },
    },
    'a-wrong-window': {
      summary: 'A window with an unknown unit',
      parameters: { since: '1y' },
      is: 'validation_failed',
    },
  },
  previewDismissal: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      parameters: { topic: 'payment.dispute.closed', since: '24h' },
    },
    'without-a-filter': {
      summary: 'Without a filter',
      parameters: { since: '24h' },
      is: 'validation_failed',
    },
  },
  dismissMatching: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      json: { topic: 'support.incident.declared', since: '24h', reason: 'An exercise.' },
    },
    'another-number': {
      summary: 'The number that matches differs from the expected one',
      json: { topic: 'support.incident.declared', since: '24h', expectedCount: 1000, reason: 'Test data.' },
      is: 'count_changed',
    },
    'without-a-reason': {
      summary: 'Without a reason',
      json: { topic: 'payment.dispute.closed', since: '24h' },
      is: 'validation_failed',
    },
  },
  examine: {
    'the-newest': { summary: 'The thousand newest events', parameters: { events: 1000 } },
    'too-many': {
      summary: 'More than a function has time for',
      parameters: { events: 1000000 },
      is: 'validation_failed',
    },
  },
  erase: {
    counted: { summary: 'A dry run', json: { subjects: ['usr_3071'], dryRun: true } },
    'a-person': {
      summary: 'A person, by their id',
      json: { subjects: ['usr_3071'], reason: 'Request 2026-114 of 20 February.' },
    },
    'without-a-reason': {
      summary: 'Without a reason',
      json: { subjects: ['usr_3071'] },
      is: 'validation_failed',
    },
    'with-a-name-in-the-reason': {
      summary: 'With an e-mail address in the reason',
      json: { subjects: ['usr_3071'], reason: 'asked for by kari.lunde@example.no' },
      is: 'validation_failed',
    },
  },
  listEvents: {
    'by-an-id-in-the-payload': {
      summary: 'The events of one payment intent',
      parameters: { q: 'pi_3QxSolvik48213', limit: 10 },
    },
    'of-a-topic': {
      summary: 'The events of one topic that wait for one subscriber',
      parameters: { topic: 'payment.captured', subscriber: 'accounting', state: 'pending' },
    },
    'an-unknown-topic': {
      summary: 'A topic that does not exist',
      parameters: { topic: 'payment.capture' },
      is: 'validation_failed',
    },
  },
  listIncidents: {
    all: { summary: 'All incidents', parameters: { limit: 10 } },
    'a-wrong-state': {
      summary: 'A state that no incident has',
      parameters: { state: 'over' },
      is: 'validation_failed',
    },
  },
  readTopic: { 'a-topic': { summary: 'A topic', parameters: { topic: 'payment.dispute.closed' } } },
  pauseSubscriber: {
    'of-a-topic': {
      summary: 'One topic',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'booking.completed', reason: 'Reviews is moving to another host.' },
    },
    'of-all-topics': {
      summary: 'All its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews is moving to another host.' },
    },
    'ahead-of-a-release': {
      summary: 'A subscription that the next release will list',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'payment.captured', ahead: true, reason: 'Reviews will be backfilled first.' },
    },
    'by-a-browser': {
      summary: 'The same, as a form of the console',
      parameters: { subscriber: 'reviews' },
      form: { reason: 'Reviews is moving to another host.' },
      status: 303,
    },
  },
  resumeSubscriber: {
    'of-a-topic': {
      summary: 'One topic',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'booking.completed' },
    },
    'of-all-topics': {
      summary: 'All its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews has moved.' },
    },
  },
  readOverview: { 'as-a-page': { summary: 'The same as a page', type: 'text/html' } },
  previewReplay: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      parameters: { topic: 'payment.dispute.closed', since: '24h' },
    },
    'chosen-ones': {
      summary: 'Deliveries by their ids',
      parameters: {
        deliveryIds: [
          '00000000-0000-7000-8000-000000000000.accounting',
          '00000000-0000-7000-8000-000000000000.ledger',
        ],
      },
    },
    'without-a-window': {
      summary: 'Without a window',
      parameters: { topic: 'payment.dispute.closed' },
      is: 'validation_failed',
    },
  },
  replay: {
    counted: { summary: 'A dry run', json: { topic: 'payment.dispute.closed', since: '24h', dryRun: true } },
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      json: { topic: 'payment.dispute.closed', since: '24h', reason: 'Accounting is back.' },
    },
    'already-replayed': {
      summary: 'Deliveries that were replayed already',
      json: { deliveryIds: ['00000000-0000-7000-8000-000000000000.accounting'] },
    },
    'another-number': {
      summary: 'The number that matches differs from the expected one',
      json: { topic: 'support.incident.declared', since: '24h', expectedCount: 1000 },
      is: 'count_changed',
    },
    'a-subscriber-not-listed': {
      summary: 'A subscriber that the catalog does not list',
      json: { topic: 'payment.dispute.closed', subscriber: 'calendar', since: '24h' },
      is: 'no_such_subscription',
    },
    paced: {
      summary: 'A thousand a minute',
      json: { topic: 'payment.dispute.closed', since: '24h', include: 'all', perMinute: 1000 },
    },
    'a-pace-of-nothing': {
      summary: 'A pace that is too slow',
      json: { topic: 'payment.dispute.closed', since: '24h', perMinute: 0 },
      is: 'validation_failed',
    },
    'an-unknown-unit': {
      summary: 'A window with an unknown unit',
      json: { topic: 'payment.dispute.closed', since: '1y' },
      is: 'validation_failed',
    },
  },
  readOperatorLog: {
    'the-newest': { summary: 'The ten newest', parameters: { limit: 10 } },
    'a-wrong-cursor': {
      summary: 'With an invalid cursor',
      parameters: { cursor: 'yesterday' },
      is: 'validation_failed',
    },
  },
  startSmokeTest: {
    'of-a-deployment': { summary: 'A smoke test', json: {} },
    'nobody-to-test': {
      summary: 'A test event to a subscriber that is not attached',
      json: { subscriber: 'postcards' },
      is: 'unattached',
    },
  },
  renameSubscriber: {
    preview: {
      summary: 'What would be renamed, without renaming it',
      parameters: { subscriber: 'faxes' },
      json: { to: 'letters', reason: 'Faxes are letters from 2.4 on.', dryRun: true },
    },
    'name-taken': {
      summary: 'To the name of another subscriber',
      parameters: { subscriber: 'accounting' },
      json: { to: 'ledger', topic: 'payment.dispute.closed', reason: 'Accounting is the ledger now.' },
      is: 'name_taken',
    },
  },
  previewRetirement: {
    'all-topics': {
      summary: 'All topics of a subscriber that the catalog does not list',
      parameters: { subscriber: 'postcards' },
    },
  },
  retireSubscriber: {
    'still-listed': {
      summary: 'A subscriber that the catalog lists',
      parameters: { subscriber: 'accounting' },
      json: { topic: 'payment.dispute.closed', reason: 'Replaced by the ledger.' },
      is: 'still_listed',
    },
    'all-topics': {
      summary: 'All topics of a subscriber that the catalog does not list',
      parameters: { subscriber: 'postcards' },
      json: { reason: 'Postcards are history.' },
    },
  },
  readSubscriber: {
    'of-one': { summary: 'A subscriber', parameters: { subscriber: 'accounting' } },
    'as-a-page': {
      summary: 'The same as a page',
      parameters: { subscriber: 'accounting' },
      type: 'text/html',
    },
  },
  probeSubscriber: {
    'it-is-silent': {
      summary: 'A subscriber that does not answer',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews is back.' },
    },
    'it-answers': {
      summary: 'A subscriber without an outage',
      parameters: { subscriber: 'accounting' },
      json: { reason: 'Accounting is back.' },
      is: 'not_silent',
    },
  },
  listTimers: {
    'of-a-topic': { summary: 'Those of one topic', parameters: { topic: 'booking.reminder.due', limit: 10 } },
  },
  listWebhooks: {
    'of-a-provider': {
      summary: 'What one provider sent',
      parameters: { provider: 'cardpayments', limit: 10 },
    },
    'by-its-id': { summary: 'One webhook, by the provider’s id', parameters: { id: 'evt_of_nobody' } },
    'an-unknown-provider': {
      summary: 'A provider that does not exist',
      parameters: { provider: 'postcards' },
      is: 'validation_failed',
    },
  },
  readMetrics: { scraped: { summary: 'A scrape by Prometheus', type: METRICS_TYPE } },
};
