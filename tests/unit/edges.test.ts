import { readFileSync } from 'node:fs';

import { describe, expect, test } from 'vitest';

type Proof = readonly [file: string, title: string];

/**
 * Where releases, names, databases, providers and strangers meet the bus: what must hold there, and the tests that show
 * it. A row names each of its tests by file and title, as they stand in the source.
 */
const edges: readonly (readonly [point: string, ...proofs: Proof[]])[] = [
  [
    'an event reaches exactly whom it was emitted for, whatever release fans it out',
    [
      'database/releases',
      'reaches a subscriber that only the newer release lists after an older relay has fanned it out',
    ],
    [
      'database/releases',
      'is fanned out by a relay whose catalog lacks its topic, and delivered by a relay whose catalog has it',
    ],
    ['database/releases', 'comes in order with the events of the other release'],
    ['chaos/mutations', 'fan-out-by-own-catalog'],
  ],
  [
    'a payload of a newer version waits for a release that can read it, and a preview does not relay',
    [
      'database/releases',
      'waits for a relay that can read it, uses no attempt, holds up nothing else and keeps its order',
    ],
    ['database/releases', 'is looked at once by a relay that cannot read it, and then left alone'],
    ['http/cron', 'relays nothing where the deployment is not to relay: %j'],
    ['chaos/mutations', 'newer-version-handed-over'],
  ],
  [
    'what left the catalog stays visible, is not replayed to nobody, and is not pruned before it is settled',
    ['database/releases', 'is counted in the totals of either release, and shown as not in its catalog'],
    ['database/releases', 'cannot be replayed: nothing moves and nothing is recorded'],
    ['database/releases', 'is never pruned before it is settled'],
  ],
  [
    'the doctor holds each event to what it was emitted for',
    ['database/releases', 'is reported by the doctor of neither release'],
    ['database/prune', 'finds %s'],
  ],
  [
    'a kick has one budget, however many further kicks come',
    [
      'database/relay-time',
      'under steady traffic %s with slow handlers ends within ten seconds and the handler limit',
    ],
  ],
  [
    'a handler is not begun where its limit does not fit, and refused where it never can',
    [
      'database/relay-time',
      'late in the life of its function begins no handler that would outlive it; the cron’s relay begins it',
    ],
    ['http/function-life', 'bounds the time limit of a handler: a longer one is refused when it is attached'],
    ['http/function-life', 'is in vercel.json what the code goes by'],
  ],
  [
    'the cron leaves no gap over six seconds, and nothing keeps it from relaying',
    ['database/relay-time', 'looks for work at least every six seconds when it is called %s'],
    ['database/relay-time', 'looks for work as often while its other duties are blocked, and names them'],
  ],
  [
    'beside a real database the local server plays nobody',
    [
      'http/local-server',
      'plays nobody: what is for those that a deployment does not attach waits, and nobody is mailed',
    ],
  ],
  [
    'the local server answers only by the names of this machine, and to its own pages',
    ['http/local-server', 'and not %j, on any path and port'],
    ['http/local-server', 'answers a POST to /dev from a page of %j with %i'],
  ],
  [
    'every text of every topic is an id, a code or personal',
    ['unit/catalog-decisions', 'is an id, a code or personal data by its own declaration: %s'],
  ],
  [
    'the audit trail keeps, and operators are shown, only what a schema names and does not mark',
    [
      'database/subscribers',
      'keeps the fields that the schema names and does not mark as personal, and no unknown fields',
    ],
    [
      'http/operators-personal',
      'a payload of a version that this release does not know is hidden as a whole, in lists and errors too',
    ],
  ],
  [
    'errors are masked in whatever writing they repeat personal data',
    ['unit/personal-mask', 'has nothing of it once it is masked, and keeps what stands around it'],
    ['unit/catalog-decisions', 'is not taken for an id by its name: nationalId has to be personal'],
  ],
  [
    'one customer cannot use up everybody’s day',
    [
      'http/visitor-limits',
      'of a day can’t be used up by five /64 networks of one customer: a /56 has a fifth of it',
    ],
    [
      'http/visitor-limits',
      'takes ten inquiries of a hundred /64 networks of one customer in ten minutes, twenty of a /48',
    ],
    [
      'http/visitor-limits',
      'sends no more mails in a day than INQUIRY_DAILY_BUDGET, over all visitors, and says when to come back',
    ],
    ['http/visitor-limits', 'leave a town hall its five inquiries'],
  ],
  [
    'strangers’ ids, plain HTTP, old tokens, wide stars and wrong variables open nothing and stop nothing else',
    ['http/inquiry', 'leaves nothing in the events of the ids that its visitor has made up'],
    ['unit/config', '%s begins with https://'],
    ['database/append-only', '%s can be added to, and neither changed, nor deleted from, nor truncated'],
    ['http/operator-sign-in', 'with a token that ends in a year lasts until that token is too old'],
    ['http/operator-numbers', 'as the expected count is one that no count is, or wrong'],
    ['unit/cors', 'is refused, with what would be right: %s'],
    ['http/nosniff', 'of api/%s, %s'],
    [
      'http/local-server',
      'keeps the embedded database to this user, also one that others could write until now',
    ],
    ['http/misconfigured', '%s=%s stops %j'],
  ],
  [
    'an inquiry’s source may have any text after its prefix',
    ['http/inquiry', 'has any text in its source after kontakt-, in the mail and in the event'],
  ],
  [
    'each part of a capture or refund is emitted once',
    ['database/payments-parts', 'each part is emitted once: %s'],
    ['database/payments-parts', 'the parts add up to what the provider says, in every order of arrival'],
    [
      'database/payments-parts',
      'a part is emitted once when twins of its webhook are handled at the same time',
    ],
  ],
  [
    'a stranger’s payment holds nobody, and is taken up when its intent appears',
    [
      'database/payments-set-aside',
      'webhooks of unknown intents are set aside and delay no known payment, however many there are',
    ],
    [
      'database/payments-set-aside',
      'webhook and intent never miss each other, and each part is emitted once, while the cron and replays run too',
    ],
  ],
  [
    'no test reads the clock twice',
    [
      'database/telemetry-spans',
      'a webhook’s event is part of its provider’s trace, and a duplicate records none',
    ],
  ],
  [
    'the platform’s own launcher runs every function',
    ['artefact/launcher', 'which answers %s %s with %i, as our server does'],
  ],
];

describe('at the edges', () => {
  test.each(edges)('%s: there is a test of it', (_, ...proofs) => {
    for (const [file, title] of proofs as readonly Proof[]) {
      const suffix = file.startsWith('chaos/') ? '.ts' : '.test.ts';
      const source = readFileSync(new URL(`../${file}${suffix}`, import.meta.url), 'utf8');
      expect(source).toContain(`'${title}'`);
    }
  });
});
