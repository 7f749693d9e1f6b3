import { emit } from '../lib/bus/outbox/emit.ts';
import { keepRelaying } from '../lib/bus/relay/keep-relaying.ts';
import { relay } from '../lib/bus/relay/relay.ts';
import { subscriber } from '../lib/bus/subscribers/subscriber.ts';
import { connect } from '../lib/platform/db/connect.ts';
import { MINUTE, SECOND, sleep } from '../lib/platform/time.ts';
import { payment, rows, storeBacklog } from '../tests/support/bus.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import type { BusOptions } from './bus/bus.ts';
import { atMost, goal, ms, number, quantile, timed } from './figures.ts';
import type { Section } from './figures.ts';

const RATE = 600;
const BACKLOG = 100_000;
const EVERY_MS = 1 * SECOND;
const ROUNDS = 15;
const PORTION = 1000;
const OTHERS = 1_000_000;
const GOALS = { rate: 0.05, cost: 1.05 };

/** Measures limits of a subscriber: how four relays keep a rate, how long another tenant waits, what others pay. */
export async function benchLimits({ quick }: BusOptions): Promise<Section> {
  const [duringMs, backlog, rounds] = quick ? [MINUTE / 6, BACKLOG / 10, 3] : [MINUTE, BACKLOG, ROUNDS];
  const server = await startPostgres();
  const url = await createDatabase(server.url);
  const relays = await Promise.all([1, 2, 3, 4].map(() => connect(url)));
  const { db } = relays[0]!;
  try {
    await storeBacklog(db, 'payment.captured', backlog, 1);
    const committed = new Map<number, number>();
    const waits: number[] = [];
    let count = 0;
    const handler = ({ payload }: { readonly payload: { readonly amountMinor: number } }) => {
      count += 1;
      const at = committed.get(payload.amountMinor);
      if (at !== undefined) waits.push(performance.now() - at);
    };
    const ledger = () => subscriber('ledger', { 'payment.captured': handler }, { rate: `${RATE}/m` });
    // Placing the backlog is not part of it.
    for (;;) if ((await relay({ db, subscribers: [], until: Date.now() + MINUTE })).placed === 0) break;
    const until = Date.now() + duringMs;
    const relaying = relays.map((one) =>
      keepRelaying({ db: one.db, subscribers: [ledger()], until, glanceEveryMs: 35 }),
    );
    for (let tenant = OTHERS; Date.now() < until - 2 * EVERY_MS; tenant += 1) {
      await sleep(EVERY_MS);
      await db.transaction((tx) =>
        emit(tx, 'payment.captured', payment(tenant), { orderingKey: `tenant ${tenant}` }),
      );
      committed.set(tenant, performance.now());
    }
    await Promise.all(relaying);
    const share = count / ((RATE * duringMs) / MINUTE);
    const [plain, beside]: [number[], number[]] = [[], []];
    const bookings = [subscriber('bookings', { 'payment.failed': () => undefined })];
    const drained = async () => {
      await storeBacklog(db, 'payment.failed', PORTION);
      return await timed(() => relay({ db, subscribers: bookings, until: Date.now() + MINUTE }));
    };
    await drained();
    for (let round = 0; round < rounds; round += 1) {
      beside.push(await drained());
      await rows(db, 'create table kept as select * from subscriber_limits');
      await rows(db, 'delete from subscriber_limits');
      plain.push(await drained());
      await rows(db, 'insert into subscriber_limits select * from kept');
      await rows(db, 'drop table kept');
    }
    return {
      title: 'Limits of a subscriber',
      rows: [
        {
          what: `deliveries of four relays in ${number(duringMs / SECOND)} s at a rate of ${RATE}/m, ${number(backlog)} waiting`,
          figure: number(count),
          goal: goal('within 5 %', Math.abs(share - 1) <= GOALS.rate),
        },
        {
          what: 'wait of another tenant’s one event beside these, p50',
          figure: ms(quantile(waits, 0.5)),
          goal: '',
        },
        { what: 'the same, p99', figure: ms(quantile(waits, 0.99)), goal: '' },
        atMost(
          `${number(PORTION)} deliveries of a subscriber without a limit, while another one has a limit, relative to none`,
          quantile(beside, 0.5) / quantile(plain, 0.5),
          GOALS.cost,
        ),
      ],
      notes: [
        `The waiting events have one ordering key, and each of the other tenants one of its own; ${number(waits.length)} of these, a second apart. Medians of ${rounds} rounds, in turn.`,
      ],
    };
  } finally {
    await Promise.all(relays.map(({ close }) => close()));
    await server.stop();
  }
}
