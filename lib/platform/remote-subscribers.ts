import * as z from 'zod';

import {
  httpUrl,
  InvalidConfiguration,
  namesUser,
  oneOf,
  onOrOff,
  optional,
  parsed,
  readOnDemand,
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
export function variableOf(component: string, part: keyof typeof subscriberParts): string {
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
      return parsed(variableOf(name, 'TOPICS'), subscriberParts.TOPICS, source);
    },
    get isBatch() {
      const batch = parsed(variableOf(name, 'BATCH'), onOrOff, source);
      return batch && batch === 'on';
    },
    get outage() {
      return parsed(variableOf(name, 'OUTAGE'), subscriberParts.OUTAGE, source);
    },
  }));
}

/** What limits a component, be it here or elsewhere. Reading a wrong part of it throws. */
export interface LimitSettings {
  readonly name: string;
  /** Such as `600/m`. */
  readonly rate: string | undefined;
  readonly concurrency: number | undefined;
}

/** Reads the limits of the components that variables name. */
export function limitSettings(source: Source): LimitSettings[] {
  const named = Object.entries(source).flatMap(([variable, value]) => {
    const name = /^SUBSCRIBER_([A-Z]+)_(?:RATE|CONCURRENCY)$/.exec(variable)?.[1];
    return name && value?.trim() ? [name.toLowerCase()] : [];
  });
  return [...new Set(named)].map((name) => ({
    name,
    get rate() {
      return parsed(variableOf(name, 'RATE'), subscriberParts.RATE, source);
    },
    get concurrency() {
      return parsed(variableOf(name, 'CONCURRENCY'), subscriberParts.CONCURRENCY, source);
    },
  }));
}

/** Reads each variable of a component by itself, also where the others leave it without effect. Reading a wrong one throws. */
export function subscriberVariables(source: Source): Readonly<Record<string, unknown>> {
  return readOnDemand(Object.keys(source), (variable) => {
    const part = /^SUBSCRIBER_[A-Z]+_([A-Z]+)$/.exec(variable)?.[1] ?? '';
    return parsed(variable, Reflect.get(subscriberParts, part) ?? z.unknown(), source);
  });
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

const topicNames = optional(
  z
    .string()
    .transform((text) => [...new Set(text.split(/[\s,]+/).filter(Boolean))])
    .refine(
      (names) => names.length > 0,
      'must name topics, separated by spaces or commas, for example booking.approved booking.cancelled',
    ),
);

const secretMust = 'must be whsec_ and the base64 of 24 to 64 random bytes, the same as at the subscriber';

/** What follows the name of a component in its variables, and what each must be. */
export const subscriberParts = {
  URL: httpUrl,
  SECRET: optional(z.string().regex(SIGNING_SECRET, secretMust)),
  TOPICS: topicNames,
  BATCH: onOrOff,
  OUTAGE: oneOf(['wait', 'off']),
  RATE: rate,
  CONCURRENCY: wholeNumber(1, 1000),
};

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
  const secret = parsed(variable, subscriberParts.SECRET, source);
  if (secret !== undefined) return secret;
  throw new InvalidConfiguration(variable, secretMust);
}
