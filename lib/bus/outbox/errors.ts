import type { ZodError } from 'zod';

import { nearest } from '../../platform/nearest.ts';
import { catalog } from '../catalog/catalog.ts';

/** Each wrong item of a long list is an issue of its own. `postbud_refuse_payload_1` lists as many. */
const MOST_ISSUES = 20;

/**
 * The payload does not match its topic's schema; `issues` says where and why. Nothing was sent to the database, unless
 * `cause` is its error.
 */
export class InvalidPayload extends Error {
  readonly code = 'invalid_payload';
  readonly topic: string;
  /** The first 20. `path` is dotted, for example `lines.0.amountMinor`; empty for the payload itself. */
  readonly issues: readonly { readonly path: string; readonly message: string }[];

  constructor(topic: string, issues: readonly { path: string; message: string }[], options?: ErrorOptions) {
    const listed = issues.slice(0, MOST_ISSUES);
    const more = issues.length - listed.length;
    const found = listed.map(({ path, message }) => (path ? `${path}: ${message}` : message));
    if (more > 0) found.push(`… and ${more.toLocaleString('en')} more`);
    super(`the payload does not match ${topic}: ${found.join('; ')}`, options);
    this.name = 'InvalidPayload';
    this.topic = topic;
    this.issues = listed;
  }

  static from(topic: string, error: ZodError): InvalidPayload {
    const issues = error.issues.map((issue) => ({ path: issue.path.join('.'), message: issue.message }));
    return new InvalidPayload(topic, issues, { cause: error });
  }
}

/** The catalog has no such topic. With the database's error as `cause`, the one that `npm run migrate` published has not. */
export class UnknownTopic extends Error {
  readonly code = 'unknown_topic';
  readonly topic: string;

  constructor(topic: string, message = unknown(topic), options?: ErrorOptions) {
    super(message, options);
    this.name = 'UnknownTopic';
    this.topic = topic;
  }
}

function unknown(topic: string): string {
  // Without types, a caller may pass anything.
  const meant = typeof topic === 'string' ? nearest(topic, Object.keys(catalog)) : null;
  const advice = meant === null ? 'the catalog of this release does not have it' : `did you mean ${meant}?`;
  return `unknown topic ${JSON.stringify(topic)}: ${advice}`;
}

/** The role of the database connection was not granted this topic's producer: `npm run grant`. */
export class NotYourTopic extends Error {
  readonly code = 'not_your_topic';
  readonly topic: string;

  constructor(topic: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NotYourTopic';
    this.topic = topic;
  }
}
