import { z } from 'zod';

/** The default export of a function's file: a Web-standard handler. */
const functionFile = z.object({
  default: z.object({ fetch: z.custom<(request: Request) => Promise<Response>>() }),
});

/** Imports a function at its first call, as a cold start does. */
export async function loadFunction(file: URL): Promise<(request: Request) => Promise<Response>> {
  const { default: handler } = functionFile.parse(await import(file.href));
  return (request) => handler.fetch(request);
}

/**
 * Whether `Request` refuses a method.
 *
 * @see https://fetch.spec.whatwg.org/#forbidden-method
 */
export function isForbidden({ method }: Pick<Request, 'method'>): boolean {
  return /^(connect|trace|track)$/i.test(method);
}

/** The URL as a function sees it: the requested path, with the path's parameters appended to the query. */
export function urlFor(request: Request, query: URLSearchParams): URL {
  const url = new URL(request.url);
  for (const [name, value] of query) url.searchParams.append(name, value);
  return url;
}
