import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { LAST_BUCKET } from './block.ts';
import type { BucketRow } from './block.ts';

/** Writes the rows of the block that begins at a number. */
export async function writeRows(tx: Transaction, from: number, rows: readonly BucketRow[]): Promise<void> {
  await run(tx, { text: WRITE, values: [from, JSON.stringify(rows)] });
}

const WRITE = `
  insert into identifiers (bucket, from_seq, hashes, ends, ordinals)
  select bucket, $1::float8::bigint, hashes, ends, ordinals
  from json_to_recordset($2::text::json)
    as written(bucket smallint, hashes integer[], ends integer[], ordinals smallint[])`;

/** Deletes the rows of all blocks that begin in a range of numbers. */
export async function dropRows(tx: Transaction, from: number, to: number): Promise<void> {
  await run(tx, { text: DROP, values: [from, to] });
}

// By bucket, since that is what the key begins with.
const DROP = `
  delete from identifiers using generate_series(0, ${LAST_BUCKET}) as every(bucket)
  where identifiers.bucket = every.bucket
    and from_seq >= $1::float8::bigint and from_seq < $2::float8::bigint`;
