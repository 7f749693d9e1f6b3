import { readFileSync } from 'node:fs';

import { z } from 'zod';

const functionSettings = z.strictObject({
  /** In seconds. */
  maxDuration: z.int().positive().optional(),
  /** Whether a function hears of a caller that has gone. */
  supportsCancellation: z.boolean().optional(),
});
export type FunctionSettings = z.output<typeof functionSettings>;

/** What the project says of itself in `vercel.json`: all that the build understands, so that nothing is left out silently. */
const vercelJson = z.strictObject({
  $schema: z.url().optional(),
  /** None: not what the platform would guess from the packages. */
  framework: z.null(),
  /** None: the platform would take the script `build` for that of a site, and answer every path with its first page. */
  buildCommand: z.literal(''),
  regions: z.array(z.string()).optional(),
  /** By patterns of files; the first that fits a file holds. */
  functions: z.record(z.string(), functionSettings).default({}),
  crons: z.array(z.strictObject({ path: z.string(), schedule: z.string() })).default([]),
  /** Of files: functions set their own. */
  headers: z
    .array(
      z.strictObject({
        source: z.string(),
        headers: z.array(z.strictObject({ key: z.string(), value: z.string() })),
      }),
    )
    .default([]),
  rewrites: z.array(z.strictObject({ source: z.string(), destination: z.string() })).default([]),
});
export type VercelJson = z.output<typeof vercelJson>;

/** @param root the project's folder. @throws Error for what this build does not know how to carry over. */
export function readVercelJson(root: URL): VercelJson {
  const parsed = vercelJson.safeParse(JSON.parse(readFileSync(new URL('vercel.json', root), 'utf8')));
  if (!parsed.success) throw new Error(`vercel.json: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}
