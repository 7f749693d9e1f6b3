import * as z from 'zod';

import type { Payload, TopicName, VersionedPayload } from '../../bus/catalog/catalog.ts';

/** An event as the handler of a component elsewhere receives it. */
export type ReceivedEvent<Name extends TopicName = TopicName> = Recorded<Name> & VersionedPayload<Name>;

/** An event without its payload. */
interface Recorded<Name extends TopicName> {
  /** UUIDv7; the same at every attempt and replay. */
  readonly id: string;
  readonly topic: Name;
  readonly producer: string;
  /** The clock of the bus's database when the event was recorded. */
  readonly createdAt: Date;
  /** Breaks ties of `createdAt` among the events of a topic. */
  readonly seq: number;
  /** Empty where the order is the whole topic's. */
  readonly orderingKey: string;
  readonly correlationId: string;
  readonly causationId: string | null;
  readonly traceparent: string | null;
  /** Whether the personal data in the payload was overwritten, because a person is to be forgotten. */
  readonly erased: boolean;
  /** The id of the event just before this one in its order, whatever became of it; null where the bus knows of none. */
  readonly previousId: string | null;
  /** Whether the bus gave that event up: it is a dead letter, or an operator skipped or dismissed it. */
  readonly previousSkipped: boolean;
}

/** The body is not what a bus sends. The message says where and why, without repeating any of it. */
export class Malformed extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Malformed';
  }
}

/**
 * Reads the CloudEvents of a verified body, in order. Their payloads are not checked again: the bus checked them when they
 * were emitted, and personal data that was overwritten since need not fit its schema.
 *
 * @throws Malformed
 */
export function readEvents(body: Uint8Array, isBatch: boolean): readonly ReceivedEvent[] {
  const json = parse(body);
  const read = isBatch ? z.array(cloudEvent).safeParse(json) : z.tuple([cloudEvent]).safeParse([json]);
  if (read.success) return read.data;
  const issues = read.error.issues.map(({ path, message }) => {
    const named = isBatch ? path : path.slice(1);
    return named.length > 0 ? `${named.join('.')}: ${message}` : message;
  });
  throw new Malformed(issues.slice(0, 5).join('; '));
}

function parse(body: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    throw new Malformed('The body is not UTF-8.');
  }
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the body.
    throw new Malformed('The body is not JSON.');
  }
}

const uuid = z.guid().toLowerCase();

const cloudEvent = z
  .object({
    specversion: z.literal('1.0'),
    id: uuid,
    source: z.string(),
    type: z.string().min(1),
    time: z.iso.datetime({ offset: true }),
    sequence: z.string().regex(/^\d+$/),
    schemaversion: z.int().positive(),
    correlationid: z.string(),
    causationid: z.string().optional(),
    partitionkey: z.string().optional(),
    traceparent: z.string().optional(),
    erased: z.boolean().optional(),
    previousid: uuid.optional(),
    previousskipped: z.boolean().optional(),
    data: z.record(z.string(), z.unknown()),
  })
  .transform((event): ReceivedEvent => ({
    id: event.id,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- compared with the handlers before one is called
    topic: event.type as TopicName,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see `readEvents`
    payload: event.data as Payload<TopicName>,
    version: event.schemaversion,
    producer: event.source.replace(/^\/postbud\//, ''),
    createdAt: new Date(event.time),
    seq: Number(event.sequence),
    orderingKey: event.partitionkey ?? '',
    correlationId: event.correlationid,
    causationId: event.causationid ?? null,
    traceparent: event.traceparent ?? null,
    erased: event.erased ?? false,
    previousId: event.previousid ?? null,
    previousSkipped: event.previousskipped ?? false,
  }));
