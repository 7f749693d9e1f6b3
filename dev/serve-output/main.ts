import { serve } from 'srvx';

import { dataDir } from '../../cli/local-server.ts';
import { signInUrl } from '../sign-in-link.ts';
import { readConfig } from '../../lib/platform/config.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { demo } from '../demo.ts';
import { developmentRoutes } from '../development-routes.ts';
import { generatePartners, generateSecrets, publish } from '../development.ts';
import { isLocalHost } from '../local-names.ts';
import { startStandIns } from '../stand-ins.ts';
import { startComponents } from './components.ts';
import type { Components } from './components.ts';
import { startNeonProxy } from './neon-proxy.ts';
import { serveOutput } from './serve-output.ts';

/**
 * Serves the output of the last build as `npm start` serves the sources: its functions run on Node 24 as on the
 * platform, on the Postgres in `DATABASE_URL` through Neon's driver, with the platform's crons and the same stand-ins
 * and `/dev/…`. Only the functions relay.
 */
async function main(): Promise<void> {
  const { port, demo: isDemoWanted, database } = readConfig();
  // The demo and the stand-ins must not write into a real database.
  if (database.kind !== 'postgres' || !isLocalHost(new URL(database.url).hostname))
    throw new Error(
      'DATABASE_URL must name a Postgres server on this machine, for example postgres://postgres@127.0.0.1:5432/postbud',
    );
  const generated = {
    ...generateSecrets(dataDir()),
    ...generatePartners(dataDir(), `http://localhost:${port}`),
  };
  const standIns = await startStandIns(0);
  const { db } = await connect(database.url);
  await migrate(db);
  let ownUrl = '';
  const accountingSecret = process.env['SUBSCRIBER_ACCOUNTING_SECRET'] ?? '';
  // The functions attach everybody.
  const isAttached = () => true;
  const routes = developmentRoutes({ db, accountingSecret, standIns, url: () => ownUrl, isAttached });
  let components: Components | undefined;
  const beside = serve({
    port: 0,
    hostname: '127.0.0.1',
    silent: true,
    fetch: async (request) => {
      if (new URL(request.url).pathname === COMPONENTS && components) return await components.take(request);
      return (await routes(request)) ?? new Response('There is nothing here.\n', { status: 404 });
    },
  });
  await beside.ready();
  components = startComponents(new URL(COMPONENTS, beside.url).href);
  const neon = await startNeonProxy(database.url);

  const { url, stop } = await serveOutput({
    port,
    variables: { ...functionVariables(database.url), ...components.variables },
    neon: neon.address,
    beside: beside.url ?? '',
    crons: true,
    write: (text) => process.stdout.write(text),
  });
  ownUrl = url;
  publish(dataDir(), url, generated);
  console.log(`Postbud’s build listens on ${url}\n\n  ${await signInUrl(url)}\n`);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void stop().then(() => process.exit(0)));
  }
  if (isDemoWanted) {
    await demo({ url, variables: generated }, console.log);
    console.log('Next: npm run demo in a second terminal sends the traffic again.\n');
  }
}

/** The addresses of components that run elsewhere. */
const COMPONENTS = '/dev/components';

/** The environment of the functions: ours, with a database address for Neon's driver. */
function functionVariables(databaseUrl: string): Record<string, string> {
  const url = new URL(databaseUrl);
  url.hostname = 'database.neon.tech';
  // The driver requires a password; the proxy drops it.
  url.password = 'none';
  const own = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || NOT_OURS.test(name) ? [] : [[name, value] as const],
  );
  return { ...Object.fromEntries(own), DATABASE_URL: url.href };
}

/** Variables of this process, not of the functions. */
const NOT_OURS = /^(NODE_|npm_|PORT$|DATA_DIR$|DEMO$|STAND_INS$)/;

try {
  await main();
} catch (error) {
  console.error(`The build cannot be served: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}
