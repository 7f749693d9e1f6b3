import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { fillLargeBus } from './large-bus.ts';
import { writeFileSync } from 'node:fs';
const server = await startPostgres();
const url = await createDatabase(server.url);
const t = Date.now();
console.log(await fillLargeBus(url, Number(process.env['N'] ?? 10_000_000), () => undefined), Date.now() - t);
writeFileSync('/tmp/why-db-url', url);
setTimeout(() => {}, 3_600_000);
