import { Webhook } from 'standardwebhooks';
import { describe, expect } from 'vitest';

import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { beat } from '../../lib/components/alerts/heartbeat.ts';
import { sendAlerts } from '../../lib/components/alerts/send-alerts.ts';
import { targetsOf } from '../../lib/console/alerts/read.ts';
import { alertDuty, duties, perform } from '../../lib/edge/cron/duties.ts';
import type { Duty } from '../../lib/edge/cron/duties.ts';
import { runCron } from '../../lib/edge/cron/run-cron.ts';
import { readConfig } from '../../lib/platform/config.ts';
import type { AlertSettings } from '../../lib/platform/config.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test as busTest } from '../support/bus-test.ts';
import { WAITING, drainLive, emitPayments, gate, numbers, openTransaction, rows } from '../support/bus.ts';
import { deliveryIdsOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import { fail } from '../support/ledger.ts';
import { answer, openReceiver } from '../support/receiver.ts';
import { endLimit, skipPauses } from '../support/waits.ts';

/** Shorter than the waits of a run, which ends when it finds nothing more to do. */
const AMPLE = 2.9 * SECOND;

const SECRET = `whsec_${Buffer.from('a secret of more than 24 bytes').toString('base64')}`;
const T0 = Date.parse('2026-02-21T23:31:00.000Z');
const at = (ms: number) => new Date(T0 + ms);

/** Both channels, which the test's receivers answer. */
const test = busTest
  .extend('sendGrid', async ({ output }, { onCleanup }) => {
    output.text();
    const sendGrid = await startSendGrid();
    onCleanup(() => sendGrid.close());
    return sendGrid;
  })
  .extend('chat', async ({ output }, { onCleanup }) => {
    output.text();
    const chat = await openReceiver();
    onCleanup(() => chat.close());
    return chat;
  })
  .extend(
    'settings',
    async ({ sendGrid, chat }): Promise<AlertSettings> =>
      readConfig({
        SENDGRID_API_KEY: 'SG.test',
        SENDGRID_BASE_URL: sendGrid.url,
        FROM_EMAIL: 'bus@solvik.example.no',
        ALERT_EMAIL: 'vakt@solvik.example.no',
        ALERT_WEBHOOK_URL: chat.url,
        ALERT_WEBHOOK_SECRET: SECRET,
        PUBLIC_URL: 'https://bus.example.no/',
      }).alerts,
  );

interface Told {
  readonly type: string;
  readonly text: string;
  readonly data: {
    readonly total: number;
    readonly incidents: readonly { readonly id: string; readonly change: string; readonly state: string }[];
  };
}

const told = ({ got }: { readonly got: readonly { readonly body: string }[] }) =>
  got.map(({ body }) => JSON.parse(body) as Told);

describe('an alert', () => {
  test('is sent once on each channel when an incident opens, changes and closes, and not in between', async ({
    bus,
    settings,
    sendGrid,
    chat,
  }) => {
    const [id] = await open(bus, 1);
    await sendAlerts(bus.db, settings, at(0));
    await sendAlerts(bus.db, settings, at(MINUTE));
    await change(bus, 'owed', 2 * MINUTE);
    await sendAlerts(bus.db, settings, at(2 * MINUTE));
    await sendAlerts(bus.db, settings, at(3 * MINUTE));
    await change(bus, 'closed', 10 * MINUTE);
    await sendAlerts(bus.db, settings, at(10 * MINUTE));
    await sendAlerts(bus.db, settings, at(11 * MINUTE));
    expect(told(chat).map(({ type }) => type)).toEqual([
      'incident.opened',
      'incident.changed',
      'incident.closed',
    ]);
    expect(sendGrid.mails.map(({ subject }) => subject)).toEqual([
      '[Local] Blocked since 22 Feb 00:31 CET: payment.captured to accounting',
      '[Local] No longer blocked: payment.captured to accounting, since 22 Feb 00:31 CET',
      '[Local] Over: payment.captured to accounting, 22 Feb 00:31 to 00:41 CET',
    ]);
    const [mail] = sendGrid.mails;
    expect(mail!.personalizations).toEqual([{ to: [{ email: 'vakt@solvik.example.no' }] }]);
    for (const { value } of mail!.content)
      expect(value).toContain(`https://bus.example.no/platform/event-bus/incidents/${id}`);
    expect(mail!.content[0]!.value).toContain(
      'accounting fails with http_500: the subscriber answered 500. 2 lanes blocked, 14 deliveries waiting. 3 dead letters to replay or dismiss.',
    );
  });

  test('is one message for an incident however many dead letters it has', async ({
    bus,
    settings,
    sendGrid,
  }) => {
    await open(bus, 1);
    for (let minute = 0; minute < 5; minute += 1) {
      await rows(bus.db, 'update incidents set owed = owed + 1000, waiting = waiting + 1000');
      await sendAlerts(bus.db, settings, at(minute * MINUTE));
    }
    expect(sendGrid.mails).toHaveLength(1);
  });

  test('is one message on each channel for a hundred incidents of a minute, with the worst first', async ({
    bus,
    settings,
    sendGrid,
    chat,
  }) => {
    await open(bus, 60);
    await sendAlerts(bus.db, settings, at(0));
    await open(bus, 40, 5 * SECOND);
    // A cron that the platform called twice.
    await sendAlerts(bus.db, settings, at(10 * SECOND));
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(told(chat).map(({ data }) => data.total)).toEqual([60, 40]);
    expect(sendGrid.mails.map(({ subject }) => subject)).toEqual([
      '[Local] Blocked since 22 Feb 00:31 CET: payment.captured to accounting, and 59 more incidents',
      expect.stringContaining('and 39 more incidents'),
    ]);
    expect(sendGrid.mails[0]!.content[0]!.value).toContain('60 incidents: 60 blocked.');
    expect(sendGrid.mails[0]!.content[0]!.value).toContain(
      'And 40 more: https://bus.example.no/platform/event-bus/incidents',
    );
    expect(told(chat)[0]!.data.incidents).toHaveLength(20);
  });

  test('tells an incident that opened and closed before it could be told once, as over', async ({
    bus,
    settings,
    chat,
  }) => {
    await open(bus, 1);
    await change(bus, 'owed', 20 * SECOND);
    await change(bus, 'closed', 40 * SECOND);
    await sendAlerts(bus.db, settings, at(MINUTE));
    await sendAlerts(bus.db, settings, at(2 * MINUTE));
    expect(told(chat)).toMatchObject([{ type: 'incident.closed', text: expect.stringContaining('Over: ') }]);
  });

  test('is not sent about what was over before the channel was set up', async ({ bus, settings, chat }) => {
    await open(bus, 3);
    await change(bus, 'closed', MINUTE);
    await open(bus, 1, 2 * MINUTE);
    await sendAlerts(bus.db, settings, at(HOUR));
    expect(told(chat)).toMatchObject([{ type: 'incident.opened', data: { total: 1 } }]);
  });

  test('is sent once by eight duties that run at once on connections of their own', async ({
    bus,
    settings,
    sendGrid,
    chat,
  }) => {
    await open(bus, 100);
    const relays = await Promise.all(numbers(1, 8).map(() => connect(bus.url)));
    for (const minute of [0, 1, 2])
      await Promise.all(relays.map(({ db }) => sendAlerts(db, settings, at(minute * MINUTE))));
    await Promise.all(relays.map(({ close }) => close()));
    expect(told(chat).map(({ data }) => data.total)).toEqual([100]);
    expect(sendGrid.mails).toHaveLength(1);
    expect(await unsent(bus)).toBe(0);
  });

  test('is signed as Standard Webhooks specify, with the same id at each attempt', async ({
    bus,
    settings,
    chat,
  }) => {
    await open(bus, 1, Date.now() - T0);
    chat.behave = answer(500);
    await sendAlerts(bus.db, settings, at(0));
    chat.behave = answer(200);
    await sendAlerts(bus.db, settings, at(MINUTE));
    const [first, second] = chat.got;
    for (const { body, headers } of [first!, second!])
      expect(new Webhook(SECRET).verify(body, headers)).toMatchObject({ type: 'incident.opened' });
    expect(second!.headers['webhook-id']).toBe(first!.headers['webhook-id']);
    expect(() => new Webhook(SECRET).verify(`${first!.body} `, first!.headers)).toThrow(
      'No matching signature',
    );
  });

  test('is sent by the right clock although the channel was last claimed by one that was ahead', async ({
    bus,
    settings,
    chat,
  }) => {
    await open(bus, 1, 2 * HOUR);
    await sendAlerts(bus.db, settings, at(2 * HOUR));
    // Written, and left to the next minute.
    await open(bus, 1, 2 * HOUR + SECOND);
    await sendAlerts(bus.db, settings, at(2 * HOUR + SECOND));
    await open(bus, 1);
    await sendAlerts(bus.db, settings, at(0));
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(told(chat).map(({ data }) => data.total)).toEqual([1, 2]);
    expect(await unsent(bus)).toBe(0);
  });

  test('is not sent twice in a minute where the clock steps back by seconds', async ({
    bus,
    settings,
    chat,
  }) => {
    await open(bus, 1);
    await sendAlerts(bus.db, settings, at(0));
    await open(bus, 1, -5 * SECOND);
    await sendAlerts(bus.db, settings, at(-5 * SECOND));
    expect(told(chat).map(({ data }) => data.total)).toEqual([1]);
  });

  test('is sent unsigned without a secret', async ({ bus, chat }) => {
    await open(bus, 1);
    await sendAlerts(bus.db, readConfig({ ALERT_WEBHOOK_URL: chat.url }).alerts, at(0));
    expect(chat.got).toHaveLength(1);
    expect(chat.got[0]!.headers).not.toHaveProperty('webhook-signature');
  });

  test('shows no markup of an error, in no channel, and no character that hides or turns others', async ({
    bus,
    settings,
    sendGrid,
    chat,
  }) => {
    await open(bus, 1);
    await rows(bus.db, `update incidents set message = $1`, [
      '<!channel> <script>alert(1)</script>\n& \u202Enoos\u0007',
    ]);
    await sendAlerts(bus.db, settings, at(0));
    const [{ text }] = told(chat) as [Told];
    expect(text).toContain(
      '&lt;!channel&gt; &lt;script&gt;alert(1)&lt;/script&gt; &amp; \u{FFFD}noos\u{FFFD}',
    );
    const [plain, page] = sendGrid.mails[0]!.content;
    expect(page!.value).not.toContain('<script>');
    for (const character of ['\u202E', '\u0007']) expect(plain!.value).not.toContain(character);
  });
});

describe('a channel that fails', () => {
  test.for([
    [500, [0, 1, 3]],
    ['babble', [0, 1, 3]],
    ['reset', [0, 1, 3, 7]],
    ['redirect', [0, 1, 3, 7]],
  ] as const)(
    'is tried again with a growing wait until the mail is accepted, once: %s',
    async ([fault, minutes], { bus, settings, sendGrid, chat }) => {
      await open(bus, 1);
      // An attempt tries a mail twice where the first time certainly had no effect.
      skipPauses(500);
      const perAttempt = fault === 'babble' ? 2 : 1;
      sendGrid.behave(Array.from({ length: (minutes.length - 1) * perAttempt }, () => fault));
      const attempts: number[] = [];
      for (let minute = 0; minute < 12; minute += 1) {
        const before = sendGrid.calls();
        await sendAlerts(bus.db, settings, at(minute * MINUTE));
        if (sendGrid.calls() > before) attempts.push(minute);
      }
      expect(sendGrid.mails).toHaveLength(1);
      expect(attempts).toEqual(minutes);
      // The other channel is none the worse.
      expect(told(chat)).toHaveLength(1);
    },
  );

  test('that hangs is left in time, and tried again', async ({ bus, settings, sendGrid }) => {
    await open(bus, 1);
    sendGrid.behave(['hang']);
    const before = sendGrid.calls();
    endLimit(8 * SECOND, () => sendGrid.calls() > before);
    await sendAlerts(bus.db, settings, at(0));
    expect(await rows(bus.db, `select last_error from alerts where channel = 'mail'`)).toEqual([
      { last_error: expect.stringMatching(/^email_timeout/) },
    ]);
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(sendGrid.mails).toHaveLength(1);
  });

  test('is given up after ten attempts, and the next incident is told all the same', async ({
    bus,
    settings,
    chat,
    output,
  }) => {
    await open(bus, 1);
    chat.behave = answer(403);
    for (let minute = 0; minute < 6 * 60; minute += 1)
      await sendAlerts(bus.db, settings, at(minute * MINUTE));
    expect(chat.got).toHaveLength(10);
    expect(
      await rows(bus.db, `select attempts, due_at, last_error from alerts where channel = 'webhook'`),
    ).toEqual([{ attempts: 10, due_at: null, last_error: 'answered 403' }]);
    chat.behave = answer(200);
    await open(bus, 1, 6 * HOUR);
    await sendAlerts(bus.db, settings, at(6 * HOUR));
    expect(told(chat).at(-1)).toMatchObject({ data: { total: 1 } });
    expect(output.linesOf('an alert was not sent')).toHaveLength(10);
    expect(output.text()).not.toContain(chat.url);
  });

  test('tells the incident as it is then, with nothing that was overtaken', async ({
    bus,
    settings,
    chat,
  }) => {
    await open(bus, 1);
    chat.behave = answer(500);
    await sendAlerts(bus.db, settings, at(0));
    await change(bus, 'closed', MINUTE);
    chat.behave = answer(200);
    await sendAlerts(bus.db, settings, at(MINUTE));
    for (let minute = 2; minute < 10; minute += 1) await sendAlerts(bus.db, settings, at(minute * MINUTE));
    expect(told(chat).map(({ type }) => type)).toEqual(['incident.opened', 'incident.closed']);
    expect(await unsent(bus)).toBe(0);
  });

  test('by a clock that was ahead is tried again by the right one', async ({ bus, settings, chat }) => {
    await open(bus, 1);
    chat.behave = answer(500);
    await sendAlerts(bus.db, settings, at(2 * HOUR));
    chat.behave = answer(200);
    await sendAlerts(bus.db, settings, at(0));
    expect(await unsent(bus)).toBe(0);
  });

  test('is tried by another process when the one that claimed the alert died', async ({
    bus,
    settings,
    chat,
  }) => {
    await open(bus, 1);
    chat.behave = () => undefined;
    // It never records how it went.
    const dying = sendAlerts(bus.db, settings, at(0)).catch(() => undefined);
    await expect.poll(() => chat.got.length).toBe(1);
    await rows(bus.db, `update alerts set attempted_at = attempted_at - interval '1 microsecond'`);
    await chat.close();
    await dying;
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(await unsent(bus)).toBe(1);
    await sendAlerts(bus.db, settings, at(2 * MINUTE));
    expect(await rows(bus.db, `select attempts from alerts where channel = 'webhook'`)).toEqual([
      { attempts: 2 },
    ]);
  });

  test('does not hold up the relay while it hangs', async ({ bus, ledger, handed, settings, chat }) => {
    await open(bus, 1, Date.now() - T0);
    await emitPayments(bus.db, 1, 3);
    const hanging = gate();
    const delivered = gate();
    chat.behave = (response) => void hanging.opened.then(() => response.writeHead(200).end());
    const running = runCron({
      db: bus.db,
      subscribers: [ledger((number) => number === 3 && delivered.open())],
      duties: [alertDuty(() => settings)],
      budgetMs: AMPLE,
    });
    await expect.poll(() => chat.got.length).toBe(1);
    await delivered.opened;
    expect(handed).toEqual([1, 2, 3]);
    // Sending holds no transaction.
    await expect
      .poll(() =>
        rows(
          bus.db,
          `select pid from pg_stat_activity where datname = current_database() and state like 'idle in %'`,
        ),
      )
      .toEqual([]);
    hanging.open();
    expect(await (await running).json()).toMatchObject({ undone: [] });
  });

  test('with a wrong variable is left out, and the other one still tells', async ({ bus, chat }) => {
    await open(bus, 1);
    const wrong = readConfig({ ALERT_EMAIL: 'nobody', ALERT_WEBHOOK_URL: chat.url });
    await sendAlerts(bus.db, wrong.alerts, at(0));
    expect(told(chat)).toHaveLength(1);
    expect(targetsOf(wrong.alerts)).toMatchObject({
      channels: [{ channel: 'webhook', to: new URL(chat.url).host }],
      problems: [expect.stringContaining('ALERT_EMAIL must be one e-mail address')],
    });
  });
});

test('An outage is told by the run of the cron that finds it, and so is its end.', async ({
  bus,
  ledger,
  settings,
  chat,
}) => {
  const slowly = duties.map((duty): Duty => {
    if (duty.name !== 'incidents') return duty;
    return { ...duty, run: async (db) => await sleep(200).then(() => duty.run(db)) };
  });
  const all = [...slowly, alertDuty(() => settings)];
  await emitPayments(bus.db, 1, 3);
  await drainLive(bus.db, [ledger(fail)]);
  await perform(all, bus.db);
  const [{ id }] = (await rows<{ id: string }>(bus.db, 'select id::text from incidents')) as [{ id: string }];
  expect(told(chat)).toMatchObject([
    {
      type: 'incident.opened',
      data: { incidents: [{ id, topic: 'payment.captured', subscriber: 'ledger' }] },
    },
  ]);
  const [first] = await deliveryIdsOf(bus.db);
  await retryNow(bus.db, { deliveryId: first!, by: 'kari', reason: null });
  await drainLive(bus.db, [ledger()]);
  // A minute later.
  await rows(bus.db, `update alerts set attempted_at = attempted_at - interval '1 minute'`);
  await perform(all, bus.db);
  expect(told(chat).map(({ type }) => type)).toEqual(['incident.opened', 'incident.closed']);
});

describe('the heartbeat', () => {
  const cron = (bus: Bus, settings: AlertSettings) =>
    runCron({ db: bus.db, subscribers: [], duties: [], budgetMs: AMPLE, heartbeat: () => beat(settings) });

  test('is called once by each run of the cron, after a turn of its relay', async ({ bus, chat }) => {
    const { alerts } = readConfig({ HEARTBEAT_URL: chat.url });
    await cron(bus, alerts);
    expect(chat.got).toMatchObject([{ method: 'GET' }]);
    await cron(bus, alerts);
    expect(chat.got).toHaveLength(2);
  });

  test('stops when the relay stands still', async ({ bus, chat, output }) => {
    output.text();
    const { alerts } = readConfig({ HEARTBEAT_URL: chat.url });
    const holder = await openTransaction(bus.url);
    await holder.client.query('lock table lanes, last_pass in access exclusive mode');
    const standing = cron(bus, alerts);
    await expect.poll(() => rows(bus.db, WAITING)).not.toHaveLength(0);
    expect(chat.got).toEqual([]);
    await holder.rollback();
    await standing;
    expect(chat.got).toHaveLength(1);
    await rows(bus.db, 'alter table awaiting rename to mislaid');
    await expect(cron(bus, alerts)).rejects.toMatchObject({ code: '42P01' });
    await rows(bus.db, 'alter table mislaid rename to awaiting');
    expect(chat.got).toHaveLength(1);
  });

  test('does not follow a redirect, and logs it', async ({ bus, chat, output }) => {
    const { alerts } = readConfig({ HEARTBEAT_URL: chat.url });
    chat.behave = (response) => void response.writeHead(302, { location: '/inside' }).end();
    expect((await cron(bus, alerts)).status).toBe(200);
    expect(chat.got).toHaveLength(1);
    expect(output.linesOf('the heartbeat was refused')).toMatchObject([{ status: 302 }]);
  });

  test('that is refused or finds nobody is logged without its address, and fails nothing', async ({
    bus,
    chat,
    output,
  }) => {
    const { alerts } = readConfig({ HEARTBEAT_URL: chat.url });
    chat.behave = answer(404);
    expect((await cron(bus, alerts)).status).toBe(200);
    await chat.close();
    expect((await cron(bus, alerts)).status).toBe(200);
    expect(output.linesOf('the heartbeat was refused')).toMatchObject([{ status: 404 }]);
    expect(output.linesOf('the heartbeat did not arrive')).toMatchObject([{ reason: 'ECONNREFUSED' }]);
    expect(output.text()).not.toContain(new URL(chat.url).host);
  });
});

/** Opens incidents of as many topics. @returns their ids. */
async function open(bus: Bus, count: number, afterMs = 0): Promise<string[]> {
  const opened = await rows<{ id: string }>(
    bus.db,
    `insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, blocked_lanes,
       waiting, owed)
     select gen_random_uuid(), 'payment.captured', 'accounting', 'http_500' || case when number > 1 or $2 <> $3 then number || $2 else '' end,
       'the subscriber answered 500', 'happening', 'opened', $2::timestamptz + number * interval '1 ms', $2::timestamptz, 2, 14, 3
     from generate_series(1, $1::int) as number returning id::text`,
    [count, at(afterMs).toISOString(), at(0).toISOString()],
  );
  return opened.map(({ id }) => id);
}

/** Changes every open incident, as the watch does. */
async function change(bus: Bus, state: 'owed' | 'closed', afterMs: number): Promise<void> {
  await rows(
    bus.db,
    `update incidents set state = $1, revision = revision + 1, blocked_lanes = 0, waiting = 0,
       change = case when $1 = 'closed' then 'closed' else 'changed' end, changed_at = $2::timestamptz,
       closed_at = case when $1 = 'closed' then $2::timestamptz end
     where closed_at is null`,
    [state, at(afterMs).toISOString()],
  );
}

async function unsent(bus: Bus): Promise<number> {
  const [row] = await rows<{ count: number }>(
    bus.db,
    `select count(*)::int as count from alerts where sent_at is null and channel = 'webhook'`,
  );
  return row!.count;
}
