import { defineConfig } from 'oxlint';

/**
 * The house, from the roof to the ground. Rooms in one row stand side by side. A room imports from the rows below its
 * own and never from its own row or above. The longest name that fits a file is its room.
 *
 * The linter reads the rooms that stand alone from here; `tests/unit/import-graph.test.ts` holds every import of every
 * file to it, with the rooms inside rooms, and looks for circles.
 */
export const LAYERS = [
  ['bench'],
  ['dev'],
  ['cli'],
  ['api'],
  ['lib/operator-console.ts'],
  ['lib/postbud.ts'],
  ['lib/cron'],
  ['lib/webhooks', 'lib/operators', 'lib/chat', 'lib/inquiry', 'lib/health', 'lib/testing'],
  ['lib/operators/following', 'lib/operators/catalog', 'lib/operators/doctor', 'lib/operators/metrics'],
  [
    'lib/operators/event',
    'lib/operators/events',
    'lib/operators/lanes',
    'lib/operators/replays',
    'lib/operators/subscribers',
  ],
  [
    'lib/operators/backfills',
    'lib/operators/erasures',
    'lib/operators/dead-letters',
    'lib/operators/overview',
  ],
  ['lib/operators/alerts', 'lib/operators/incidents', 'lib/operators/set-aside'],
  ['lib/operators/access'],
  ['lib/operators/page'],
  [
    'lib/operators/known-names.ts',
    'lib/operators/operator.ts',
    'lib/operators/prepared.ts',
    'lib/operators/shapes.ts',
  ],
  ['lib/relay', 'lib/alerts', 'lib/incidents'],
  ['lib/deliveries', 'lib/identifiers', 'lib/receive'],
  ['lib/subscribers'],
  ['lib/outbox'],
  ['lib/mail', 'lib/subscriber-health'],
  ['lib/http', 'lib/db'],
  ['lib/rate-limit'],
  ['lib/telemetry'],
  ['lib/log.ts', 'drizzle'],
  ['lib/config.ts'],
  ['lib/remote-subscribers.ts', 'lib/webhook-settings.ts'],
  [
    'lib/environment.ts',
    'lib/origin-pattern.ts',
    'lib/lifetime.ts',
    'lib/catalog-description',
    'lib/markup.ts',
  ],
  ['lib/time.ts'],
  [
    'lib/abort.ts',
    'lib/catalog',
    'lib/conflict.ts',
    'lib/json-schema.ts',
    'lib/nearest.ts',
    'lib/trace-context.ts',
    'lib/version.ts',
    'lib/visible.ts',
    'lib/webhooks/schemes',
  ],
];

const EVENTS = [
  'lib/relay',
  'lib/deliveries',
  'lib/subscribers',
  'lib/outbox',
  'lib/catalog',
  'lib/db',
  'drizzle',
];

/** The rooms below that a room must not import all the same. */
export const STRANGERS = {
  api: ['drizzle', 'lib/db', 'lib/config.ts', 'lib/environment.ts'],
  'lib/chat': ['lib/operators', ...EVENTS],
  'lib/cron': ['lib/operators', 'lib/chat', 'lib/inquiry'],
  'lib/deliveries': ['lib/http'],
  'lib/health': ['lib/operators', ...EVENTS],
  'lib/http': ['drizzle', 'lib/catalog'],
  'lib/incidents': ['lib/http'],
  'lib/inquiry': ['lib/operators', 'lib/relay', 'lib/deliveries', 'lib/subscribers'],
  'lib/mail': EVENTS,
  'lib/operators': ['lib/relay'],
  'lib/outbox': ['lib/http', 'lib/mail'],
  // A package of its own has nothing of them.
  'lib/receive': [
    'lib/http',
    'lib/mail',
    'lib/db',
    'lib/log.ts',
    'lib/config.ts',
    'lib/telemetry',
    'drizzle',
  ],
  'lib/rate-limit': EVENTS,
  'lib/relay': ['lib/http'],
  'lib/subscribers': ['lib/http'],
  'lib/telemetry': EVENTS,
  'lib/testing': ['lib/http', 'lib/mail', 'lib/alerts', 'lib/incidents'],
  'lib/webhooks': ['lib/operators', 'lib/relay', 'lib/deliveries', 'lib/subscribers'],
};

/** The packages of rooms that may not import any other. */
export const PACKAGES = {
  api: ['@vercel/functions'],
  'lib/catalog': ['zod'],
  'lib/receive': ['zod', 'node:crypto', 'node:events'],
};

const isInner = (room) => /^lib\/\w+\//.test(room);

/** Rooms inside rooms are left to the test: `../catalog/` is another room in each folder. */
const rooms = LAYERS.flat().filter((room) => !isInner(room));

function restrictionsOf(room) {
  const row = LAYERS.findIndex((names) => names.includes(room));
  const strange = [...LAYERS.slice(0, row + 1).flat(), ...(STRANGERS[room] ?? [])].filter(
    (other) => other !== room && rooms.includes(other),
  );
  const packages = PACKAGES[room];
  // Of the patterns that fit an import, the last decides.
  const otherPackages = packages ? ['**', '!./**', '!../**', ...packages.map((name) => `!${name}`)] : [];
  // A room inside a strange one may be below all the same.
  const barred = STRANGERS[room] ?? [];
  const inner = LAYERS.slice(row + 1)
    .flat()
    .filter((name) => isInner(name) && !barred.some((other) => name.startsWith(`${other}/`)));
  const group = [...otherPackages, ...strange.map(patternOf), ...inner.map((name) => `!${patternOf(name)}`)];
  const message = `${room} may not import this: see the tables in oxlint.config.mjs`;
  return {
    files: [room.endsWith('.ts') ? room : `${room}/**`],
    rules: { 'no-restricted-imports': ['error', { patterns: [{ group, message }] }] },
  };
}

function patternOf(room) {
  const name = room.replace(/^lib\//, '');
  return name.endsWith('.ts') ? `**/${name}` : `**/${name}/**`;
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
    { files: ['lib/config.ts'], rules: { 'node/no-process-env': 'off' } },
    { files: ['api/**'], rules: { 'import/no-default-export': 'off' } },
    { files: ['dev/site/**'], rules: { 'typescript/no-misused-promises': 'off' } },
    ...rooms.map(restrictionsOf),
  ],
  ignorePatterns: ['node_modules', 'drizzle/migrations', '.vercel', 'dist'],
});
