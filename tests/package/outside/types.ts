// Compiled in a repository outside this one, with the package's types as they are installed there and no other types. Each
// `@ts-expect-error` stands above what must not compile.
import { catalog, isTopicName } from 'postbud/catalog';
import type { Payload, TopicName } from 'postbud/catalog';
import { createKick, emit, InvalidPayload, UnknownTopic } from 'postbud/emit';
import type { EmitOptions } from 'postbud/emit';
import { receiver } from 'postbud/receive';
import { testBus } from 'postbud/testing';

/** A transaction of `pg`, Neon's driver or PGlite, described by what it has. */
declare const tx: { query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> };

const payload = {
  maintenanceId: 'mnt_58',
  resourceId: 'res_furulia_svommehall',
  completedAt: '2026-07-08T12:40:00Z',
};

export async function emits(): Promise<string> {
  const options: EmitOptions = { dedupeKey: 'mnt_58', orderingKey: 'res_furulia_svommehall' };
  const { id } = await emit(tx, 'resource.maintenance.completed', payload, options);
  // @ts-expect-error -- not a topic
  await emit(tx, 'resource.maintenance.complete', payload);
  // @ts-expect-error -- a payload of another topic
  await emit(tx, 'resource.updated', payload);
  // @ts-expect-error -- a field is missing
  await emit(tx, 'resource.maintenance.completed', { maintenanceId: 'mnt_58', resourceId: 'res_1' });
  // @ts-expect-error -- a field of the wrong type
  await emit(tx, 'resource.maintenance.completed', { ...payload, completedAt: new Date() });
  // @ts-expect-error -- a field that the topic does not have
  await emit(tx, 'resource.maintenance.completed', { ...payload, completed: true });
  // @ts-expect-error -- an option that there is not
  await emit(tx, 'resource.maintenance.completed', payload, { dedupe: 'mnt_58' });
  // @ts-expect-error -- not a transaction
  await emit({}, 'resource.maintenance.completed', payload);
  return id;
}

export function reads(name: string, error: unknown): string {
  if (error instanceof InvalidPayload) return error.issues.map(({ path }) => path).join();
  if (error instanceof UnknownTopic) return error.topic;
  if (!isTopicName(name)) return catalog['resource.maintenance.completed'].description;
  const topic: TopicName = name;
  const read: Payload<'resource.maintenance.completed'> = payload;
  // @ts-expect-error -- any text is no topic
  const wrong: TopicName = 'postcard.sent';
  return `${topic} ${read.maintenanceId} ${wrong}`;
}

export const kick: () => Promise<void> = createKick({ url: 'https://bus.example.no', secret: 'whsec_' });
// @ts-expect-error -- the secret is missing
export const unsigned = createKick({ url: 'https://bus.example.no' });

/** A pool of `pg` or Neon's driver, described by what it has. */
declare const database: {
  connect(): Promise<
    typeof tx & {
      release(destroy?: boolean): void;
      on(event: 'error', listener: () => void): unknown;
      off(event: 'error', listener: () => void): unknown;
    }
  >;
};

export const receives = receiver({
  subscriber: 'calendar',
  secrets: 'whsec_',
  database,
  handlers: {
    'resource.maintenance.completed': async ({ payload: { maintenanceId } }, client) => {
      await client.query('select $1', [maintenanceId]);
    },
    // @ts-expect-error -- the calendar does not subscribe to it
    'user.signed_in': () => undefined,
  },
});

export async function tests(): Promise<unknown> {
  const bus = await testBus([]);
  // @ts-expect-error -- a database is no transaction
  await emit(bus.db, 'resource.maintenance.completed', payload);
  await bus.db.transaction(async (inner) => await emit(inner, 'resource.maintenance.completed', payload));
  const [received] = bus.received('calendar', 'resource.maintenance.completed');
  // @ts-expect-error -- not a component
  bus.received('calender');
  return received?.event.payload.maintenanceId;
}
