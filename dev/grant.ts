import type { Given } from '../cli/arguments.ts';
import { withDatabase } from './database.ts';
import { EXIT, Failure, misused, unknownName } from '../cli/arguments.ts';
import { runProgram } from './program.ts';
import { drawList } from '../cli/draw.ts';
import type { Pane } from '../cli/terminal.ts';
import { topics } from '../lib/bus/catalog/catalog.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { databaseRoles, grantRight, revokeRight, roleGrants } from '../lib/platform/db/role-grants.ts';
import type { DatabaseRole, RoleRight } from '../lib/platform/db/role-grants.ts';
import { driverOf } from '../lib/platform/db/statement.ts';

const USAGE = `npm run grant -- --role bookings --producer bookings
npm run grant -- --role functions --relay
npm run grant -- --role oncall --read
npm run grant -- --role bookings --revoke

Grants a role of the database the right to emit a producer’s topics, to run the functions and relays, or to read, and no
other right; with --revoke, takes it back. Without arguments, lists what was granted. Needs the user who owns the tables,
in DATABASE_URL_UNPOOLED or else in DATABASE_URL.`;

/** `npm run grant`. */
await runProgram({
  usage: USAGE,
  options: {
    role: { value: '<name>', help: 'a role of the database' },
    producer: { value: '<name>', help: 'lets it emit the topics of this producer' },
    relay: { help: 'lets it do all that the functions and relays do' },
    read: { help: 'lets it read all tables' },
    revoke: { help: 'takes the right back; without one, all that the role has' },
  },
  async run(given, { out }) {
    const right = rightOf(given);
    const name = given.text('role');
    if (name === undefined && (right !== null || given.isSet('revoke')))
      throw misused('--role is missing.', 'Write --role and a role of the database, such as --role bookings');
    if (name !== undefined && right === null && !given.isSet('revoke'))
      throw misused(`Nothing to grant to ${name}.`, 'Add --producer <name>, --relay, --read or --revoke.');
    await withDatabase(['DATABASE_URL_UNPOOLED', 'DATABASE_URL'], async (db) => {
      if (name === undefined) out.write(await listed(db, out));
      else if (given.isSet('revoke')) out.write(await revoked(db, name, right));
      else for (const line of await granted(db, name, right!)) out.write(line);
    });
    return EXIT.ok;
  },
});

function rightOf(given: Given): RoleRight | null {
  const asked = ['producer', 'relay', 'read'].filter((option) => given.isSet(option));
  if (asked.length > 1)
    throw misused(`--${asked.join(' and --')} are granted one at a time.`, 'Run the command once for each.');
  const producer = given.text('producer');
  if (producer === undefined) {
    const may = asked[0];
    return may === 'relay' || may === 'read' ? { may, producer: '' } : null;
  }
  const known = [...new Set(topics().map(([, topic]) => topic.producer))].toSorted();
  // One that the catalog had before can still be taken back.
  if (!known.includes(producer) && !given.isSet('revoke')) throw unknownName('producer', producer, known);
  return { may: 'emit', producer };
}

async function granted(db: Database, name: string, right: RoleRight): Promise<string[]> {
  const roles = await databaseRoles(driverOf(db));
  const role = roles.find((one) => one.role === name);
  if (role === undefined) {
    const known = roles.map((one) => one.role);
    throw unknownName('role', name, known, `Create it first: create role "${name}" login password '…';`);
  }
  refuseTooMuch(role, right);
  await db.transaction((tx) => grantRight(tx, name, right));
  const done = `${name} may ${inWords(right)}.`;
  return right.may !== 'relay' && role.writes.length > 0 ? [done, writesByHand(role)] : [done];
}

function refuseTooMuch({ role, isOwner, mayCreate }: DatabaseRole, right: RoleRight): void {
  if (isOwner)
    throw new Failure(
      EXIT.failed,
      `${role} has all rights on the tables of the bus already, so a grant would limit nothing.`,
      'Grant to a role that neither owns the tables nor is a superuser nor a member of such a role.',
    );
  if (mayCreate && right.may !== 'relay')
    throw new Failure(
      EXIT.failed,
      `${role} may create functions in the schema public, where the relays would call them with their own rights.`,
      `First run: revoke create on schema public from public, "${role}"; its own tables need a schema of their own.`,
    );
}

function writesByHand({ role, writes }: DatabaseRole): string {
  const names = writes.join(', ');
  return `${role} may also write to ${names}, and so emit any topic: a right that was granted by hand.
When no program of that role needs it any more (older packages do), take it away:
  revoke all on ${names} from "${role}"`;
}

async function revoked(db: Database, name: string, right: RoleRight | null): Promise<string> {
  const taken = await db.transaction((tx) => revokeRight(tx, name, right));
  if (taken.length > 0) return `${name} may no longer ${taken.map(inWords).join(', nor ')}.`;
  const roles = (await roleGrants(driverOf(db))).map(({ role }) => role);
  if (!roles.includes(name)) throw unknownName('role', name, [...new Set(roles)], 'It was granted nothing.');
  throw misused(`${name} was not granted that.`, 'npm run grant lists what it was granted.');
}

async function listed(db: Database, pane: Pane): Promise<string> {
  const grants = await roleGrants(driverOf(db));
  const roles = await databaseRoles(driverOf(db));
  const rows = [
    ...grants.map((grant) => [grant.role, inWords(grant), hintOf(grant.role, roles)]),
    ...roles
      .filter(({ isOwner, writes }) => !isOwner && writes.length > 0)
      .map(({ role, writes }) => [role, `write to ${writes.join(', ')}`, 'granted by hand']),
  ];
  if (rows.length === 0) return 'Nothing was granted to any role.';
  const columns = ['role', 'may', ''].map((label, place) => ({
    label,
    cell: (row: readonly string[]) => row[place],
  }));
  return drawList(pane, { name: 'Grants', columns, rows });
}

function hintOf(role: string, roles: readonly DatabaseRole[]): string {
  return roles.some((one) => one.role === role) ? '' : 'the role does not exist';
}

function inWords({ may, producer }: RoleRight): string {
  switch (may) {
    case 'emit':
      return `emit the topics of ${producer}`;
    case 'relay':
      return 'run the functions and relays';
    case 'read':
      return 'read all tables';
  }
}
