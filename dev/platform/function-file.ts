import { z } from 'zod';

/** What a function's file exports: a Web-standard handler. */
const functionFile = z.object({
  default: z.object({ fetch: z.custom<(request: Request) => Promise<Response>>() }),
});

/** Imports a function: at its first call, as a cold start does. */
export async function loadFunction(file: URL): Promise<(request: Request) => Promise<Response>> {
  const { default: handler } = functionFile.parse(await import(file.href));
  return (request) => handler.fetch(request);
}

/**
 * Whether a method is one with which no Request can be made.
 *
 * @see https://fetch.spec.whatwg.org/#forbidden-method
 */
export function isForbidden({ method }: Pick<Request, 'method'>): boolean {
  return /^(connect|trace|track)$/i.test(method);
}

/** The URL as a function sees it: the path as it was asked for, and the path's parameters after the query. */
export function urlFor(request: Request, query: URLSearchParams): URL {
  const url = new URL(request.url);
  for (const [name, value] of query) url.searchParams.append(name, value);
  return url;
}
