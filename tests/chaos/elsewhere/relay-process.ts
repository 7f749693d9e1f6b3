import { relay } from '../../../lib/bus/relay/relay.ts';
import { connect } from '../../../lib/platform/db/connect.ts';
import { sleep } from '../../../lib/platform/time.ts';
import { attached } from './attached.ts';
import { loaded } from './loaded.ts';
import { timeOf } from './orders.ts';
import type { RelayOrders } from './orders.ts';

const { busUrl, port, clock } = JSON.parse(process.argv[2]!) as RelayOrders;

await loaded();
const { db } = await connect(busUrl);
const subscribers = attached(port);
process.send?.('has begun');

for (;;) {
  await relay({ db, subscribers, until: Date.now() + 5000, now: () => timeOf(clock) });
  await sleep(20);
}
