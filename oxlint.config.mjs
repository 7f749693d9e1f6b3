import { defineConfig } from 'oxlint';

/**
 * The house, from the roof to the ground. Rooms in one row stand side by side. A room imports from the rows below its
 * own and never from its own row or above. The longest name that fits a file is its room.
 *
 * `tests/unit/import-graph.test.ts` holds every import of every file to it, and looks for circles. The linter reads from
 * here which neighbourhoods of `lib/` know nothing of each other.
 */
export const LAYERS = [
  ['bench'],
  ['dev'],
  ['cli'],
  ['api'],
  ['lib/console/console.ts'],
  ['lib/edge/cron', 'lib/edge/events'],
  ['lib/edge/chat', 'lib/edge/health', 'lib/edge/inquiry', 'lib/edge/webhooks'],
  ['lib/edge/store-limit.ts', 'lib/edge/turnstile.ts'],
  ['lib/edge/counts.ts'],
  ['lib/console/endpoint.ts'],
  ['lib/console'],
  ['lib/console/catalog', 'lib/console/doctor', 'lib/console/metrics'],
  ['lib/console/events', 'lib/console/lanes', 'lib/console/subscribers'],
  ['lib/console/overview'],
  ['lib/console/incidents'],
  ['lib/console/replays'],
  ['lib/console/dead-letters'],
  ['lib/console/event'],
  ['lib/console/backfills', 'lib/console/dismissals', 'lib/console/erasures'],
  ['lib/console/deliveries', 'lib/console/held-lanes', 'lib/console/timers'],
  ['lib/console/alerts'],
  ['lib/console/access'],
  ['lib/console/kit'],
  ['lib/elsewhere/testing'],
  [
    'lib/elsewhere/catalog-description',
    'lib/elsewhere/emit',
    'lib/elsewhere/outbox',
    'lib/elsewhere/receive',
  ],
  ['lib/elsewhere/clients'],
  ['lib/components/database.ts'],
  ['lib/components/postbud.ts'],
  ['lib/components'],
  ['lib/components/alerts'],
  [
    'lib/components/erasures',
    'lib/components/incidents',
    'lib/components/identifiers',
    'lib/components/remote',
  ],
  ['lib/bus/relay'],
  ['lib/bus/deliveries/operations'],
  ['lib/bus/deliveries', 'lib/bus/doctor'],
  ['lib/bus/subscribers'],
  ['lib/bus/migrations', 'lib/bus/outbox'],
  ['lib/platform/mail'],
  ['lib/platform/http', 'lib/platform/db'],
  ['lib/platform/rate-limit'],
  ['lib/platform/telemetry'],
  ['lib/platform/log.ts', 'drizzle'],
  ['lib/platform/config.ts'],
  [
    'lib/platform/alert-settings.ts',
    'lib/platform/operator-settings.ts',
    'lib/platform/remote-producers.ts',
    'lib/platform/remote-subscribers.ts',
    'lib/platform/webhook-settings.ts',
  ],
  ['lib/platform/mail-settings.ts'],
  [
    'lib/platform/answer.ts',
    'lib/platform/said.ts',
    'lib/platform/directory-roles.ts',
    'lib/platform/environment.ts',
    'lib/platform/origin-pattern.ts',
    'lib/platform/lifetime.ts',
    'lib/platform/markup.ts',
    'lib/platform/time-limit.ts',
  ],
  ['lib/platform/masking', 'lib/platform/time.ts'],
  [
    // What can happen is known to all but the platform, and knows nobody.
    'lib/bus/catalog',
    'lib/platform/abort.ts',
    'lib/platform/conflict.ts',
    'lib/platform/gate.ts',
    'lib/platform/json-schema.ts',
    'lib/platform/nearest.ts',
    'lib/platform/once-for.ts',
    'lib/platform/schemes',
    'lib/platform/scopes.ts',
    'lib/platform/storable.ts',
    'lib/platform/trace-context.ts',
    'lib/platform/version.ts',
    'lib/platform/visible.ts',
  ],
];

const EVENTS = ['lib/bus', 'lib/platform/db', 'drizzle'];

/** The rooms below that a room must not import all the same, but for those behind a `!`. */
export const STRANGERS = {
  api: ['drizzle', 'lib/platform/db', 'lib/platform/config.ts', 'lib/platform/environment.ts'],
  'lib/bus': ['lib/platform/http', 'lib/platform/mail'],
  'lib/components/alerts': ['lib/bus/relay'],
  'lib/components/incidents': ['lib/platform/http', 'lib/bus/relay'],
  'lib/components/identifiers': ['lib/platform/http', 'lib/bus/relay'],
  'lib/console': ['lib/bus/relay'],
  'lib/edge': ['lib/console', 'lib/elsewhere'],
  'lib/edge/chat': EVENTS,
  'lib/edge/cron': ['lib/edge/chat', 'lib/edge/inquiry'],
  'lib/edge/events': [
    'lib/bus/relay',
    'lib/bus/deliveries',
    'lib/bus/subscribers',
    'lib/edge/chat',
    'lib/edge/inquiry',
  ],
  'lib/edge/health': EVENTS,
  'lib/edge/inquiry': ['lib/bus/relay', 'lib/bus/deliveries', 'lib/bus/subscribers'],
  'lib/edge/webhooks': ['lib/bus/relay', 'lib/bus/deliveries', 'lib/bus/subscribers'],
  // A package of its own has nothing of them.
  'lib/elsewhere/receive': [
    'lib/platform/http',
    'lib/platform/mail',
    'lib/platform/db',
    'lib/platform/log.ts',
    'lib/platform/config.ts',
    'lib/platform/telemetry',
    'drizzle',
  ],
  'lib/elsewhere/testing': [
    'lib/platform/http',
    'lib/platform/mail',
    'lib/components',
    '!lib/components/remote',
  ],
  // What is beneath the bus serves any application.
  'lib/platform': ['lib/bus'],
  'lib/platform/http': ['drizzle'],
  'lib/platform/mail': EVENTS,
  'lib/platform/rate-limit': EVENTS,
  'lib/platform/telemetry': EVENTS,
};

/** The packages of rooms that may not import any other. */
export const PACKAGES = {
  api: ['@vercel/functions'],
  'lib/bus/catalog': ['zod'],
  'lib/elsewhere/receive': ['zod', 'node:crypto', 'node:events'],
};

const ROOMS = LAYERS.flat();

const isIn = (place, name) => name === place || name.startsWith(`${place}/`);

const neighbourhoodOf = (room) => /^(?:lib\/)?[^/]+/.exec(room)[0];

const rowOf = (room) => LAYERS.findIndex((names) => names.includes(room));

function mayImport(room, other) {
  const isStrange = Object.entries(STRANGERS).some(
    ([place, strangers]) =>
      isIn(place, room) &&
      strangers.some((strange) => isIn(strange, other)) &&
      !strangers.includes(`!${other}`),
  );
  return rowOf(other) > rowOf(room) && !isStrange;
}

/** Bars the neighbourhoods of which a room may import nothing. Within one, a path does not tell the room. */
function restrictionsOf(room) {
  const open = new Set(ROOMS.filter((other) => mayImport(room, other)).map(neighbourhoodOf));
  const closed = [...new Set(ROOMS.map(neighbourhoodOf))].filter(
    (other) => other !== neighbourhoodOf(room) && !open.has(other),
  );
  const packages = PACKAGES[room];
  // Of the patterns that fit an import, the last decides.
  const otherPackages = packages ? ['**', '!./**', '!../**', ...packages.map((name) => `!${name}`)] : [];
  const group = [...otherPackages, ...closed.map((other) => `**/${other.replace('lib/', '')}/**`)];
  const message = `${room} may not import this: see the tables in oxlint.config.mjs`;
  return {
    files: [room.endsWith('.ts') ? room : `${room}/**`],
    rules: { 'no-restricted-imports': ['error', { patterns: [{ group, message }] }] },
  };
}

export default defineConfig({
  plugins: ['typescript', 'unicorn', 'oxc', 'import', 'node', 'promise', 'vitest'],
  categories: { correctness: 'error', suspicious: 'error', perf: 'error' },
  env: { node: true, es2024: true },
  rules: {
    'typescript/no-explicit-any': 'error',
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': 'error',
    'typescript/await-thenable': 'error',
    'typescript/return-await': ['error', 'error-handling-correctness-only'],
    'typescript/consistent-return': 'off',
    'oxc/no-map-spread': 'off',
    'typescript/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
    'typescript/require-array-sort-compare': 'off',
    'typescript/consistent-type-imports': 'error',
    'import/no-cycle': 'error',
    'import/no-default-export': 'error',
    'node/no-process-env': 'error',
    'no-console': 'error',
    'no-await-in-loop': 'off',
    'import/no-named-as-default': 'off',
    'import/no-named-as-default-member': 'off',
    'unicorn/consistent-function-scoping': 'off',
    'typescript/restrict-template-expressions': ['error', { allowNumber: true }],
  },
  overrides: [
    {
      files: ['cli/**', 'dev/**', 'bench/**', 'tests/**', '*.config.{ts,mjs}'],
      rules: {
        'typescript/no-unsafe-type-assertion': 'off',
        'typescript/unbound-method': 'off',
        'no-shadow': 'off',
        'no-empty-pattern': ['error', { allowObjectPatternsAsParameters: true }],
        'vitest/expect-expect': 'off',
        'vitest/no-conditional-expect': 'off',
        'no-unmodified-loop-condition': 'off',
        'typescript/no-base-to-string': 'off',
        'unicorn/no-array-sort': 'off',
        'typescript/no-misused-spread': 'off',
        'vitest/valid-expect': ['error', { maxArgs: 2 }],
        'vitest/require-mock-type-parameters': 'off',
        'vitest/no-standalone-expect': 'off',
        'typescript/restrict-template-expressions': 'off',
        'node/no-process-env': 'off',
        'no-console': 'off',
        'import/no-default-export': 'off',
      },
    },
    { files: ['lib/platform/config.ts'], rules: { 'node/no-process-env': 'off' } },
    { files: ['api/**'], rules: { 'import/no-default-export': 'off' } },
    { files: ['dev/site/**'], rules: { 'typescript/no-misused-promises': 'off' } },
    // The rule of an inner room takes the place of the one around it.
    ...ROOMS.toSorted((one, other) => one.length - other.length).map(restrictionsOf),
  ],
  ignorePatterns: ['node_modules', 'drizzle/migrations', '.vercel', 'dist', 'tests/package/clients'],
});
