import * as z from 'zod';

/** A query's cursor: where a page of a list begins, as an earlier answer wrote it. */
export function cursorOf<Shape extends z.ZodType>(shape: Shape) {
  return z.string().transform((text, context): z.output<Shape> => {
    try {
      return shape.parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
    } catch {
      context.addIssue({ code: 'custom', message: 'expected a cursor from an earlier answer, or none' });
      return z.NEVER;
    }
  });
}

export function writeCursor(cursor: unknown): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}
