/** A producer's name, or a URI reference that ends in it. */
export const SOURCE = /^(?:\S*[/:#])?[^\s/:#]+$/;

/** Reads the producer's name from a source: all of it, or of a URI what is behind its last `/`, `:` or `#`. */
export function producerOf(source: string): string {
  return source.slice(source.search(/[^/:#]+$/));
}

/**
 * Writes the key that is unique for an event in its topic. CloudEvents tells events apart by `source` and `id`; where the
 * source is the producer's name, the id is enough.
 */
export function dedupeKeyOf({ source, id }: { readonly source: string; readonly id: string }): string {
  return source === producerOf(source) ? id : `${source}#${id}`;
}
