import * as z from 'zod';

/** A transaction that was prepared for a two-phase commit: it holds its locks until somebody commits or rolls it back. */
export const preparedTransaction = z
  .object({
    gid: z
      .string()
      .describe('Its name: `rollback prepared` or `commit prepared` with it ends the transaction.'),
    owner: z.string().describe('The role that prepared it.'),
  })
  .meta({
    id: 'PreparedTransaction',
    description: 'A transaction that was prepared for a two-phase commit and has not been ended.',
  });
type PreparedTransaction = z.output<typeof preparedTransaction>;

/** The two statements that end it, of which an operator chooses one. */
export function endsOf({
  gid,
}: Pick<PreparedTransaction, 'gid'>): readonly [rollback: string, commit: string] {
  const name = `'${gid.replaceAll("'", "''")}'`;
  return [`rollback prepared ${name}`, `commit prepared ${name}`];
}
