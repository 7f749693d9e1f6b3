// What the run itself, and tests of two releases, need of the bus from the same build as its relays.
export { topics } from '../../lib/catalog/catalog.ts';
export { connect } from '../../lib/db/connect.ts';
export { examine } from '../../lib/operators/doctor/read.ts';
export { readOverview } from '../../lib/operators/overview/read.ts';
export { previewReplay } from '../../lib/operators/replays/preview.ts';
export { advanceBackfills, backfill } from '../../lib/deliveries/backfill.ts';
export { advanceRenames, rename } from '../../lib/deliveries/rename.ts';
export { dismiss } from '../../lib/deliveries/dismiss.ts';
export { advanceReplays } from '../../lib/deliveries/paced-replay.ts';
export { prune } from '../../lib/deliveries/prune.ts';
export { replay } from '../../lib/deliveries/replay.ts';
export { replayRequest } from '../../lib/deliveries/replay-request.ts';
export { watchIncidents } from '../../lib/incidents/watch.ts';
export { publishCatalog } from '../../lib/db/publish-catalog.ts';
export { emit } from '../../lib/outbox/emit.ts';
export { RECEIVED_TABLE, receiver } from '../../lib/receive/receiver.ts';
export { relay } from '../../lib/relay/relay.ts';
export { attach } from '../../lib/subscribers/subscriber.ts';
