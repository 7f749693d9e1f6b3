import { SECOND } from '../../../lib/platform/time.ts';
import { storeBacklog } from '../../support/bus.ts';
import { Stage } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** Point 7. */
export const statementLimit: Surrounding = {
  name: 'statement-limit-of-100-ms',
  point: 7,
  inCi: false,
  play: limited,
};

const EVENTS = 20_000;
const TOPIC = 'payment.captured';

async function limited({ arena, build }: Scene): Promise<Outcome> {
  const stage = await Stage.open(arena, build, { isRecorded: false });
  try {
    const { db, close } = await build.bus.connect(stage.url('producer'));
    await storeBacklog(db, TOPIC, EVENTS, 50);
    await close();
    await stage.sql(`alter database ${stage.database} set statement_timeout = '100ms'`);
    await stage.relay();
    const left = await stage.rest(60 * SECOND);
    const broken = [
      ...(left === 0 ? [] : [`${left} deliveries and markers still wait after a minute`]),
      ...(await stage.broken()),
    ];
    return { did: `${EVENTS} events of ${TOPIC} waited for one relay`, broken };
  } finally {
    await stage.close();
  }
}
