import { describe, expect } from 'vitest';

import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { emitToBooks } from '../support/books.ts';
import { drainLive, rows } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, test, wordsOf } from '../support/console-test.ts';
import { pageFaults } from '../support/page-faults.ts';

const SHOWN = VIEWS.flatMap((view) => [1280, 390].map((width) => ({ ...view, width })));

/** Has payments wait for the ledger's former name: `books`, which no catalog lists. */
async function waitForBooks(db: Database, count: number): Promise<void> {
  await forgetEvents(db, 'error_groups', 'backfills', 'pauses');
  await emitToBooks(db, 1, count);
  await drainLive(db, [attach('audit', {})]);
}

const heldBy = async (db: Database) =>
  await rows(db, `select count(*)::int as held from ${RECORDS} where subscriber = 'books'`);

describe('a retired subscriber', () => {
  test.for(SHOWN)(
    'is retired after a preview; a typing error in the confirmation is said beside it, and nothing is lost, $how at $width px',
    async ({ options, width }, { at, db, newPage }) => {
      await waitForBooks(db, 101);
      const page = await newPage({ ...options, viewport: { width, height: 900 } }, /400/);
      await page.goto(at('/subscribers/books'));
      await page.getByRole('link', { name: 'Retire… books on payment.captured' }).click();
      await expect.poll(() => wordsOf(page)).toContain('payment.captured 101 0');
      if (!('javaScriptEnabled' in options)) expect(await pageFaults(page, page.url())).toEqual([]);
      await page.getByLabel('Reason').fill('replaced by the ledger');
      const typed = page.getByRole('textbox', { name: 'Type 101 to confirm' });
      await typed.fill('110');
      const retire = page.getByRole('button', { name: 'Retire books on payment.captured' });
      await retire.click();
      await expect.poll(() => page.locator('.wrong').textContent()).toBe('Type 101 to confirm.');
      expect(await typed.getAttribute('aria-describedby')).toBe('wrong-confirm');
      expect(await page.getByLabel('Reason').inputValue()).toBe('replaced by the ledger');
      expect(await typed.inputValue()).toBe('110');
      expect(await heldBy(db)).toEqual([{ held: 101 }]);
      await typed.fill('101');
      await retire.click();
      await expect
        .poll(() => wordsOf(page))
        .toContain('Retired books on payment.captured: 101 deliveries dismissed.');
      expect(await heldBy(db)).toEqual([{ held: 0 }]);
      await page.screenshot({ path: `/tmp/shot-retire-${width}-${options.colorScheme}.png`, fullPage: true });
    },
  );
});
