import { readFileSync } from 'node:fs';

import { z } from 'zod';

const functionSettings = z.strictObject({
  /** In seconds. */
  maxDuration: z.int().positive().optional(),
  /** Whether a function is cancelled when its caller hangs up. */
  supportsCancellation: z.boolean().optional(),
});
export type FunctionSettings = z.output<typeof functionSettings>;

/** The settings in `vercel.json` that the build supports. Any other is an error, so that none is dropped silently. */
const vercelJson = z.strictObject({
  $schema: z.url().optional(),
  /** Null, so that the platform does not guess a framework from the packages. */
  framework: z.null(),
  /**
   * Empty: otherwise the platform would run the script `build` as a site's build, and answer every path with the first
   * page.
   */
  buildCommand: z.literal(''),
  regions: z.array(z.string()).optional(),
  /** By patterns of files; the first match applies. */
  functions: z.record(z.string(), functionSettings).default({}),
  /** Which the platform reads itself, where it builds. `writeOutput` refuses them. */
  schedules: z.record(z.string(), z.unknown()).optional(),
  daemons: z.record(z.string(), z.unknown()).optional(),
  crons: z.array(z.strictObject({ path: z.string(), schedule: z.string() })).default([]),
  /** For static files; functions set their own headers. */
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

/** @param root the project's folder. @throws Error for a setting that this build does not support. */
export function readVercelJson(root: URL): VercelJson {
  const parsed = vercelJson.safeParse(JSON.parse(readFileSync(new URL('vercel.json', root), 'utf8')));
  if (!parsed.success) throw new Error(`vercel.json: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}
