/**
 * The kind of what fails nowhere and waits: a delivery whose payload is of a version that nobody reads, no running relay or
 * not the component elsewhere. Its incident has it, and the attempt that such a component answered.
 */
export const NEWER_VERSION = 'newer_version';
