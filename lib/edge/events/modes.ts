import { eventTypes, requireMediaType } from '../../platform/http/body.ts';
import type { MediaType } from '../../platform/http/body.ts';
import { Problem } from '../../platform/http/problem.ts';
import { invalid, requireValid, validated } from '../../platform/http/validated.ts';
import { attributes, cloudEvent, eventBatch } from './route.ts';
import type { ProducedEvent } from './route.ts';

/** How CloudEvents are written into a request: one as JSON, several, or one whose attributes are headers. */
export type Mode = 'structured' | 'batch' | 'binary';

/**
 * Tells how the events of a request are written.
 *
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#3-http-message-mapping
 * @throws Problem 415
 */
export function modeOf(request: Request): Mode {
  const { headers } = request;
  const type = headers.get('content-type') ?? '';
  const hasAttributes = [...headers.keys()].some((name) => name.startsWith('ce-'));
  if (!hasAttributes || /^\s*application\/cloudevents/i.test(type)) {
    const found = requireTyped(request, eventTypes, AS_EVENTS);
    return found === 'application/cloudevents+json' ? 'structured' : 'batch';
  }
  // A cancelled timer has no data, and so no type of them.
  if (type !== '') requireTyped(request, ['application/json'], AS_DATA);
  return 'binary';
}

const AS_EVENTS = `The content-type is not supported. Send UTF-8 as one of these types: ${eventTypes.join(', ')}; or one event in binary mode, with its attributes as ce- headers and its data as application/json.`;

const AS_DATA =
  'Beside ce- headers the content-type is that of the data, which are taken as JSON alone. Send the data in UTF-8 as application/json.';

/** @throws Problem 415 */
function requireTyped(request: Request, taken: readonly MediaType[], detail: string): MediaType {
  try {
    return requireMediaType(request, taken);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new Problem('unsupported_media_type', { detail, headers: error.headers, cause: error });
  }
}

/** @throws Problem 400 */
export function eventsIn(mode: Mode, { headers }: Request, bytes: Uint8Array): readonly ProducedEvent[] {
  switch (mode) {
    case 'structured':
      return [validated({ type: 'application/cloudevents+json', bytes }, cloudEvent)];
    case 'batch':
      return validated({ type: 'application/cloudevents-batch+json', bytes }, eventBatch);
    case 'binary': {
      const data =
        bytes.length > 0
          ? { data: validated({ type: 'application/json', bytes }, cloudEvent.shape.data) }
          : {};
      return [requireValid({ ...attributesIn(headers), ...data }, cloudEvent)];
    }
  }
}

/** @throws Problem 400 for a value that is not encoded as the binding says. */
function attributesIn(headers: Headers): Readonly<Record<string, string>> {
  const found = Object.keys(attributes).flatMap((name) => {
    const value = headers.get(`ce-${name}`);
    return value === null ? [] : [[name, decoded(name, value)] as const];
  });
  return Object.fromEntries(found);
}

/** @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#3132-http-header-values */
function decoded(name: string, value: string): string {
  const [, quoted] = /^"((?:[^"\\]|\\.)*)"$/.exec(value) ?? [];
  const text = quoted?.replaceAll(/\\(.)/g, '$1') ?? value;
  try {
    if (/^[ -~]*$/.test(text)) return decodeURIComponent(text);
  } catch {
    // Refused below.
  }
  const message = `expected UTF-8 with percent-encoding in the header ce-${name}, for example B%C3%A6rum`;
  throw invalid([{ path: name, pointer: `/${name}`, code: 'invalid_encoding', message }]);
}
