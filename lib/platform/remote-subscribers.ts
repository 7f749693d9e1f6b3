import * as z from 'zod';

import {
  httpUrl,
  InvalidConfiguration,
  namesUser,
  oneOf,
  onOrOff,
  optional,
  parsed,
  wholeNumber,
} from './environment.ts';
import type { Source } from './environment.ts';
import { SIGNING_SECRET } from './schemes/signing.ts';
import { rateOf } from './time.ts';

/** A component that runs elsewhere and receives its events over HTTP. Reading a wrong part of it throws. */
export interface RemoteSubscriber {
  readonly name: string;
  readonly url: string;
  /** The key that signs requests to it by Standard Webhooks: base64 after `whsec_`. */
  readonly secret: string;
  /** The topics that it receives, each once and not yet compared with the catalog; undefined means all its topics. */
  readonly topics?: readonly string[] | undefined;
  /** Whether it receives its events in batches; undefined means no. */
  readonly isBatch?: boolean | undefined;
  /** Whether deliveries wait while nobody is there; undefined means that they do. */
  readonly outage?: 'wait' | 'off' | undefined;
}

/** Names a variable of a component elsewhere, such as `SUBSCRIBER_LEDGER_URL`. */
export function variableOf(
  component: string,
  part: 'URL' | 'SECRET' | 'TOPICS' | 'BATCH' | 'OUTAGE' | 'RATE' | 'CONCURRENCY',
): string {
  return `SUBSCRIBER_${component.toUpperCase()}_${part}`;
}

/** Reads the components with an address, or with topics that need one. */
export function remoteSubscribers(source: Source): RemoteSubscriber[] {
  const names = Object.entries(source).flatMap(([variable, value]) => {
    const name = /^SUBSCRIBER_([A-Z]+)_(?:URL|TOPICS)$/.exec(variable)?.[1];
    return name && value?.trim() ? [name.toLowerCase()] : [];
  });
  return [...new Set(names)].map((name) => ({
    name,
    get url() {
      return urlOf(name, source);
    },
    get secret() {
      return secretOf(name, source);
    },
    get topics() {
      return parsed(variableOf(name, 'TOPICS'), topicNames, source);
    },
    get isBatch() {
      const batch = parsed(variableOf(name, 'BATCH'), onOrOff, source);
      return batch && batch === 'on';
    },
    get outage() {
      return parsed(variableOf(name, 'OUTAGE'), waitOrOff, source);
    },
  }));
}

/** What limits a component, be it here or elsewhere. Reading a wrong part of it throws. */
export interface LimitSettings {
  readonly name: string;
  /** One of the variables that name it. */
  readonly variable: string;
  /** Such as `600/m`. */
  readonly rate: string | undefined;
  readonly concurrency: number | undefined;
}

/** Reads the limits of the components that variables name. */
export function limitSettings(source: Source): LimitSettings[] {
  const named = Object.entries(source).flatMap(([variable, value]) => {
    const name = /^SUBSCRIBER_([A-Z]+)_(?:RATE|CONCURRENCY)$/.exec(variable)?.[1];
    return name && value?.trim() ? [[name.toLowerCase(), variable] as const] : [];
  });
  return Array.from(new Map(named), ([name, variable]) => ({
    name,
    variable,
    get rate() {
      return parsed(variableOf(name, 'RATE'), rate, source);
    },
    get concurrency() {
      return parsed(variableOf(name, 'CONCURRENCY'), wholeNumber(1, 1000), source);
    },
  }));
}

const rate = optional(
  z
    .string()
    .trim()
    .refine(
      (text) => rateOf(text) !== null,
      'must be a number from 1 to 1000000 and the time in which so many are allowed (s, m, h or d), for example 600/m',
    ),
);

const waitOrOff = oneOf(['wait', 'off']);

const topicNames = optional(
  z
    .string()
    .transform((text) => [...new Set(text.split(/[\s,]+/).filter(Boolean))])
    .refine(
      (names) => names.length > 0,
      'must name topics, separated by spaces or commas, for example booking.approved booking.cancelled',
    ),
);

function urlOf(name: string, source: Source): string {
  const variable = variableOf(name, 'URL');
  const url = parsed(variable, httpUrl, source);
  if (url === undefined) {
    const topics = variableOf(name, 'TOPICS');
    throw new InvalidConfiguration(
      variable,
      `must be set when ${topics} is. If nothing is to be sent elsewhere, remove ${topics}`,
    );
  }
  if (!namesUser(url)) return url;
  throw new InvalidConfiguration(
    variable,
    'must not contain a user or a password: requests are signed instead',
  );
}

function secretOf(name: string, source: Source): string {
  const variable = variableOf(name, 'SECRET');
  const secret = source[variable] ?? '';
  if (SIGNING_SECRET.test(secret)) return secret;
  throw new InvalidConfiguration(
    variable,
    'must be whsec_ and the base64 of 24 to 64 random bytes, the same as at the subscriber',
  );
}
