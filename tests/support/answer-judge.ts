import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

import type { DocumentedAnswer, DocumentedOperation, Header, OpenApiDocument, Schema } from './contract.ts';

/** Tells what is wrong with answers, by the document. */
export class AnswerJudge {
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, formats: { 'idn-email': /@/ } });
  readonly #document: OpenApiDocument;
  readonly #compiled = new Map<Schema, ValidateFunction>();

  constructor(document: OpenApiDocument) {
    this.#document = document;
    addFormats.default(this.#ajv);
    this.#ajv.addSchema(closed(document.components.schemas), SCHEMAS);
  }

  /**
   * Looks at status, headers, media type and body, which may have no field that is not described.
   *
   * @returns what is wrong, and the body: JSON parsed, anything else as text.
   */
  async judge(
    operation: DocumentedOperation,
    response: Response,
  ): Promise<{ readonly faults: readonly string[]; readonly body: unknown }> {
    const text = await response.text();
    const type = response.headers.get('content-type');
    const body: unknown = /json/.test(type ?? '') && text !== '' ? JSON.parse(text) : text;
    const answer = operation.responses[response.status];
    if (!answer) return { faults: [`${response.status} is not described: ${text.slice(0, 300)}`], body };
    const faults = [...this.#headerFaults(answer, response.headers), ...this.#bodyFaults(answer, type, body)];
    return { faults, body };
  }

  /** What is wrong with a value, by a schema of the document. */
  faultsOf(schema: Schema, value: unknown): readonly string[] {
    let validate = this.#compiled.get(schema);
    if (!validate) {
      validate = this.#ajv.compile(closed(schema));
      this.#compiled.set(schema, validate);
    }
    if (validate(value)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `body${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }

  #headerFaults(answer: DocumentedAnswer, headers: Headers): readonly string[] {
    const described = new Set(Object.keys(answer.headers).map((name) => name.toLowerCase()));
    const silent = Object.keys(this.#document.components.headers).filter(
      (name) => headers.has(name) && !described.has(name.toLowerCase()),
    );
    const wrong = Object.entries(answer.headers).flatMap(([name, documented]) => {
      const { required, schema } = this.#header(documented);
      const text = headers.get(name);
      if (text === null) return required ? [`has no ${name}`] : [];
      const faults = this.faultsOf(schema, schema['type'] === 'integer' ? Number(text) : text);
      return faults.map((fault) => `${name}: ${text} (${fault})`);
    });
    return [...wrong, ...silent.map((name) => `has ${name}, which is not described`)];
  }

  #header(header: Header): Header {
    return header.$ref === undefined
      ? header
      : this.#document.components.headers[header.$ref.split('/').at(-1)!]!;
  }

  #bodyFaults({ content }: DocumentedAnswer, type: string | null, body: unknown): readonly string[] {
    if (!content) return body === '' ? [] : ['has a body, and none is described'];
    const media = Object.entries(content).find(
      ([described]) => essence(described) === essence(type ?? ''),
    )?.[1];
    if (!media) return [`is of type ${type}, which is not described`];
    const events = media['x-events'];
    if (!events) return this.faultsOf(media.schema, body);
    return eventsIn(String(body)).flatMap(({ name, data }) => {
      const schema = events[name];
      return schema ? this.faultsOf(schema, data) : [`has an event ${name}, which is not described`];
    });
  }
}

/** A media type without `charset`, which says nothing of UTF-8. */
const essence = (type: string) =>
  type
    .toLowerCase()
    .replace(/; *charset=utf-8/, '')
    .replaceAll(' ', '');

/** The events of a stream. */
function eventsIn(stream: string): readonly { readonly name: string; readonly data: unknown }[] {
  return stream
    .split('\n\n')
    .filter(Boolean)
    .map((block) => {
      const [, name = '', data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      return { name, data: JSON.parse(data || 'null') as unknown };
    });
}

/** Where the document's named schemas are, once they are closed. */
const SCHEMAS = 'https://contract.invalid/schemas';

/** The same schema, that lets in no field which it does not name. */
function closed(schema: object): object {
  const text = JSON.stringify(schema, (_, value: unknown) => {
    const isOpen = isSchema(value) && value['type'] === 'object' && 'properties' in value;
    return isOpen && !('additionalProperties' in value) ? { ...value, additionalProperties: false } : value;
  });
  return JSON.parse(text.replaceAll('"#/components/schemas/', `"${SCHEMAS}#/`)) as object;
}

function isSchema(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
