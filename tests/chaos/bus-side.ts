// What the run itself, and tests of two releases, need of the bus from the same build as its relays.
export { topics } from '../../lib/bus/catalog/catalog.ts';
export { connect } from '../../lib/platform/db/connect.ts';
export { examine } from '../../lib/bus/doctor/examine.ts';
export { readOverview } from '../../lib/console/overview/read.ts';
export { previewReplay } from '../../lib/console/replays/preview.ts';
export { advanceBackfills, backfill } from '../../lib/bus/deliveries/operations/backfill.ts';
export { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
export { advanceReplays } from '../../lib/bus/deliveries/operations/paced-replay.ts';
export { prune } from '../../lib/bus/deliveries/prune.ts';
export { repair } from '../../lib/bus/deliveries/operations/repair.ts';
export { replay } from '../../lib/bus/deliveries/operations/replay.ts';
export { replayRequest } from '../../lib/console/kit/replay-request.ts';
export { watchIncidents } from '../../lib/components/incidents/watch.ts';
export { publishCatalog } from '../../lib/bus/migrations/publish-catalog.ts';
export { cancelTimer, emit } from '../../lib/bus/outbox/emit.ts';
export { RECEIVED_TABLE, receiver } from '../../lib/elsewhere/receive/receiver.ts';
export { relay } from '../../lib/bus/relay/relay.ts';
export { attach } from '../../lib/bus/subscribers/subscriber.ts';
