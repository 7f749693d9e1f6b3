import pg from 'pg';
import { vi } from 'vitest';
import { z } from 'zod';

import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { rows } from './bus.ts';

/** How often a statement ran, and how many rows its plans handled and blocks they read in all. */
export interface Work {
  readonly calls: number;
  readonly rows: number;
  readonly blocks: number;
  /** The tables that were read from their beginning. */
  readonly scanned: readonly string[];
}

/** A connection that notes how many rows the plans of its statements handle. */
export interface WatchedConnection extends Connection {
  /** Returns the work of each statement since the last call, by the statement's first words. */
  readonly takeWork: () => ReadonlyMap<string, Work>;
}

/** Has the database tell with each statement which plan it took. Counts for connections that are opened afterwards. */
export async function explainAll(connection: Connection): Promise<void> {
  const [{ name }] = (await rows<{ name: string }>(connection.db, 'select current_database() as name')) as [
    { name: string },
  ];
  const settings = {
    session_preload_libraries: 'auto_explain',
    'auto_explain.log_min_duration': '0',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_timing': 'off',
    'auto_explain.log_buffers': 'on',
    'auto_explain.log_format': 'json',
    // Most of the work is in the functions of the bus.
    'auto_explain.log_nested_statements': 'on',
    client_min_messages: 'log',
  };
  for (const [setting, value] of Object.entries(settings))
    await rows(connection.db, `alter database ${name} set ${setting} = '${value}'`);
}

/** Opens a connection to a database that explains all. */
export async function watch(url: string): Promise<WatchedConnection> {
  const [connection, pools] = await withItsPools(() => connect(url));
  const work = new Map<string, Work>();
  const listen = (client: pg.PoolClient) =>
    client.on('notice', ({ message = '' }) => {
      const [, json] = /plan:\s*(\{[^]*)$/.exec(message) ?? [];
      if (json === undefined) return;
      const { 'Query Text': text, Plan: plan } = explained.parse(JSON.parse(json));
      const name = nameOf(text);
      const known = work.get(name) ?? { calls: 0, rows: 0, blocks: 0, scanned: [] };
      work.set(name, {
        calls: known.calls + 1,
        rows: known.rows + handledBy(plan),
        blocks: known.blocks + plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
        scanned: [...new Set([...known.scanned, ...scannedBy(plan)])],
      });
    });
  for (const pool of pools) pool.on('connect', listen);
  return {
    ...connection,
    takeWork() {
      const taken = new Map(work);
      work.clear();
      return taken;
    },
  };
}

/** Collects the pools that are made meanwhile: one for turns and one for all else. */
async function withItsPools<Made>(make: () => Promise<Made>): Promise<[Made, ReadonlySet<pg.Pool>]> {
  const pools = new Set<pg.Pool>();
  const on = pg.Pool.prototype.on as (...args: unknown[]) => pg.Pool;
  const spy = vi.spyOn(pg.Pool.prototype, 'on').mockImplementation(function (
    this: pg.Pool,
    ...args: unknown[]
  ) {
    pools.add(this);
    return Reflect.apply(on, this, args);
  });
  const made = await make();
  spy.mockRestore();
  return [made, pools];
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string | undefined;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  /** With those of all nodes below it. */
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly 'Rows Removed by Filter'?: number | undefined;
  readonly 'Rows Removed by Join Filter'?: number | undefined;
  readonly Plans?: readonly PlanNode[] | undefined;
}

const planNode: z.ZodType<PlanNode> = z.lazy(() =>
  z.object({
    'Node Type': z.string(),
    'Relation Name': z.string().optional(),
    'Actual Rows': z.number(),
    'Actual Loops': z.number(),
    'Shared Hit Blocks': z.number(),
    'Shared Read Blocks': z.number(),
    'Rows Removed by Filter': z.number().optional(),
    'Rows Removed by Join Filter': z.number().optional(),
    Plans: z.array(planNode).optional(),
  }),
);
const explained = z.object({ 'Query Text': z.string(), Plan: planNode });

function handledBy(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0);
  const own = (node['Actual Rows'] + removed) * node['Actual Loops'];
  return own + (node.Plans ?? []).reduce((sum, inner) => sum + handledBy(inner), 0);
}

function scannedBy(node: PlanNode): string[] {
  const name = node['Relation Name'];
  const own =
    node['Node Type'] === 'Seq Scan' && node['Actual Loops'] > 0 && name !== undefined ? [name] : [];
  return [...own, ...(node.Plans ?? []).flatMap(scannedBy)];
}

/** Each statement by its beginning, which tells it from all others. */
function nameOf(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim().slice(0, 600);
}
