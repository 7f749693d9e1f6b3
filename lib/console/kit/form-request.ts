import * as z from 'zod';

import { isOfAction } from './done.ts';

/** A request from a form or a query: all fields are texts, empty ones are left out, ids are separated by commas. */
export const asForm = <Request extends z.ZodType>(request: Request) => z.preprocess(fromTexts, request);

const texts = z.record(z.string(), z.string());

function fromTexts(form: unknown): unknown {
  const fields = texts.safeParse(form);
  if (!fields.success) return form;
  const filled = Object.entries(fields.data).filter(
    ([name, text]) => text.trim() !== '' && !isOfAction(name),
  );
  return Object.fromEntries(filled.map(([name, text]) => [name, valueOf(name, text)]));
}

function valueOf(name: string, text: string): unknown {
  switch (name) {
    case 'deliveryIds':
      return text.split(',');
    case 'expectedCount':
    case 'limit':
    case 'perMinute':
      return Number(text);
    case 'dismissDuplicates':
    case 'dryRun':
    case 'exact':
      // Any other text is invalid, and must not count as false.
      return text === 'true' || (text === 'false' ? false : text);
    default:
      return text;
  }
}
