import * as z from 'zod';

/** The environment has a wrong value; `variable` says which, the message what it should be. */
export class InvalidConfiguration extends Error {
  readonly code = 'invalid_configuration';
  readonly variable: string;

  constructor(variable: string, should: string) {
    super(`${variable}: ${should}`);
    this.name = 'InvalidConfiguration';
    this.variable = variable;
  }
}

/** An environment: texts by the names of variables. */
export type Source = Readonly<Record<string, string | undefined>>;

/** An empty or blank variable is an unset one: that is how hosts let people clear it. */
export const optional = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess(
    (value) => (typeof value === 'string' && value.trim() === '' ? undefined : value),
    schema.optional(),
  );

/** Of a service that is called. In a deployment without HTTPS it is refused; see `parsed`. */
export const httpUrl = optional(
  z.url({ protocol: /^https?$/, error: 'write a URL that begins with https:// or http://' }),
);

/** The variables of a schema, each of which is parsed when it is read, not before. */
export function variablesOf<Schema extends z.ZodObject<Readonly<Record<string, z.ZodType>>>>(
  { shape }: Schema,
  source: Source,
): z.output<Schema> {
  const variables = Object.entries(shape).map(([variable, schema]) => {
    const get = () => parsed(variable, schema, source);
    return [variable, { get, enumerable: true }] as const;
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a getter for each variable of the schema
  return Object.defineProperties({}, Object.fromEntries(variables)) as z.output<Schema>;
}

/** Parses one variable. @throws InvalidConfiguration */
export function parsed<Schema extends z.ZodType>(
  variable: string,
  schema: Schema,
  source: Source,
): z.output<Schema> {
  const { data, error } = z.safeParse(schema, source[variable]);
  if (error) throw new InvalidConfiguration(variable, error.issues[0]?.message ?? 'is wrong');
  // Keys, tokens and events would go through other people's networks in the clear.
  if (isDeployed(source) && Object.is(schema, httpUrl) && /^http:/i.test(String(data)))
    throw new InvalidConfiguration(variable, 'write a URL that begins with https://');
  return data;
}

/** Whether this is a function on Vercel, and no server of a developer. */
export function isDeployed({ VERCEL }: Source): boolean {
  return VERCEL === '1';
}

/** @returns what was read; undefined where a variable of it is wrong. */
export function readable<Part>(
  read: () => Part,
  onWrong?: (error: InvalidConfiguration) => void,
): Part | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof InvalidConfiguration)) throw error;
    onWrong?.(error);
    return undefined;
  }
}
