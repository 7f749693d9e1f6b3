import type { z } from 'zod';

/** Schemas of payloads by version. */
type Schemas = Readonly<Record<number, z.ZodType>>;

/** A topic as its row of the catalog declares it. */
interface Row<
  Payload extends z.ZodType,
  Producer extends string,
  Subscribers extends readonly [string, ...string[]],
  Version extends number,
  Earlier extends Schemas,
> {
  /** The component that emits it. */
  readonly producer: Producer;
  /** The components that receive every event of the topic, each independently of the others. */
  readonly subscribers: Subscribers;
  /** One sentence: the fact that an event states. */
  readonly description: string;
  /** The schema of its payload, which `emit` checks before it stores anything. */
  readonly payload: Payload;
  /** A valid payload, for documents and tests. */
  readonly example: z.input<Payload>;
  /** Counts breaking changes of `payload`, from 1. */
  readonly version: Version;
  /** The schemas of the versions before, by number: subscribers still get such events, and handlers read them by `version`. */
  readonly earlier?: Earlier;
  /** Whether the platform's owner defines this topic; by default we do. */
  readonly listed?: boolean;
  /**
   * Narrows the lane from the whole topic to the events that share this key: a subscriber receives the events of one key
   * in order, and different keys do not wait for each other.
   *
   * It is a method, because only a method's parameter lets every row pass as a plain `Topic`.
   */
  orderingKey?(payload: z.output<Payload>): string;
  /** The field that is the ordering key, for example `bookingId`. Set exactly when `orderingKey` is. */
  readonly orderedBy?: string;
  /**
   * The fields that name the person whose personal data the payload holds: their id, or personal data that nobody else
   * has, such as an e-mail address. All name the same person. By these an erasure finds the events of a person.
   *
   * An id of someone else, for example who granted a role, is not among them.
   */
  readonly person?: readonly FieldOf<z.output<Payload>>[];
  /** Fields that name others whose personal data the payload holds. */
  readonly otherPeople?: readonly FieldOf<z.output<Payload>>[];
  /**
   * Dotted paths of ids in a value that is hidden as a whole, such as a provider's body. Events are found by these, and by
   * no other text of such a value.
   */
  readonly ids?: readonly FieldOf<z.output<Payload>>[];
}

/**
 * A kind of event, and a row of the catalog: the contract between its producer and its subscribers.
 *
 * Every type of the bus derives from these rows: topic names, payloads, who may subscribe, what `emit` accepts.
 */
export interface Topic<
  Payload extends z.ZodType = z.ZodType,
  Producer extends string = string,
  Subscribers extends readonly [string, ...string[]] = readonly [string, ...string[]],
  Version extends number = number,
  Earlier extends Schemas = Schemas,
> extends Row<Payload, Producer, Subscribers, Version, Earlier> {
  readonly listed: boolean;
}

/**
 * The version and the payload of a topic's events, as subscribers read them. With several versions it is a union: a check of
 * `version` says which fields there are.
 */
export type Versioned<Of extends Topic> = Of extends unknown
  ?
      | { readonly version: Of['version']; readonly payload: z.output<Of['payload']> }
      | Each<NonNullable<Of['earlier']>>
  : never;

type Each<Earlier extends Schemas> = {
  readonly [Version in keyof Earlier]: {
    readonly version: Version;
    readonly payload: z.output<Earlier[Version]>;
  };
}[keyof Earlier];

/** A field of a payload that may hold a text, or a dotted path into a value whose fields the schema does not name. */
type FieldOf<Payload> = unknown extends Payload
  ? string
  : {
      [Name in keyof Payload & string]: NonNullable<Payload[Name]> extends string
        ? Name
        : string extends keyof NonNullable<Payload[Name]>
          ? `${Name}.${string}`
          : never;
    }[keyof Payload & string];

/** Declares a topic. Its type ties `example` and `orderingKey` to `payload`. */
export function topic<
  Payload extends z.ZodType,
  Producer extends string,
  const Subscribers extends readonly [string, ...string[]],
  const Version extends number,
  // oxlint-disable-next-line typescript/no-generated-empty-object-type -- no earlier version
  const Earlier extends Schemas = Record<never, never>,
>(
  row: Row<Payload, Producer, Subscribers, Version, Earlier>,
): Topic<Payload, Producer, Subscribers, Version, Earlier> {
  return { ...row, listed: row.listed ?? false };
}
